package fresh

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
	"weir.dev/tests/real/wait"
)

// auditLog is the log of all apiservers of the run.
var auditLog = sync.OnceValue(func() *audit.Log { return audit.NewLog(plane.Instances...) })

// spans reads the audit logs after everything that was answered so far is in them.
func spans(t testing.TB, filter audit.Filter) []audit.Span {
	t.Helper()
	auditLog().Fence(t, agent("fence"))
	found, err := auditLog().Spans(filter)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// of keeps the spans of one source.
func of(all []audit.Span, source audit.Source) []audit.Span {
	var kept []audit.Span
	for _, s := range all {
		if s.Source() == source {
			kept = append(kept, s)
		}
	}
	return kept
}

// mirrorEverywhere makes weir mirror a kind, in all its forms, and waits until the mirrors have come to a revision.
func mirrorEverywhere(t testing.TB, k kind, rv uint64) {
	t.Helper()
	if modes.IsPlain() {
		return
	}
	for _, endpoint := range endpoints() {
		mirrorAt(t, endpoint, k, rv)
	}
}

// mirrorAt does the same at one place. The first list of a kind is a lone one and passed on.
func mirrorAt(t testing.TB, endpoint client.Endpoint, k kind, rv uint64) {
	t.Helper()
	c := caller(t, endpoint, "first")
	const limit = 60 * time.Second
	wait.Eventually(t, fmt.Sprintf("%s at %s mirrored at %d", k.plural, endpoint.URL, rv), limit, func() error {
		answer, err := c.Send(t.Context(), client.Request{Path: k.in("") + "?resourceVersion=0"})
		if err != nil {
			return err
		}
		list, err := client.ParseList(answer.Body)
		if err == nil && (!client.FromMirror(answer.Header) || list.RV() < rv) {
			err = fmt.Errorf("%q at %d", answer.Header.Get(client.AnsweredBy), list.RV())
		}
		return err
	})
}

// assertAtHome demands that every place of weir answers by itself, soon, what needs no proof and what needs one.
func assertAtHome(t testing.TB, weir *cluster.Weir, k kind) {
	t.Helper()
	const limit = 20 * time.Second
	for place, endpoint := range weir.Endpoints {
		c := caller(t, endpoint, "after")
		for _, query := range []string{"?resourceVersion=0", ""} {
			err := wait.Within(limit, func() error {
				answer, err := c.Send(t.Context(), client.Request{Path: k.in("") + query})
				if err == nil && !client.FromMirror(answer.Header) {
					err = fmt.Errorf("%d by %q", answer.Status, answer.Header.Get(client.AnsweredBy))
				}
				return err
			})
			if err != nil {
				t.Errorf("%s%s at place %d not from the mirror within %s: %v", k.plural, query, place, limit, err)
			}
		}
	}
}

// feedFromA brings all feeds of a kind to instance A, and then opens the way to B again.
func feedFromA(t testing.TB, kinds ...kind) {
	t.Helper()
	plane.B.Relay.Refuse(true)
	plane.B.Relay.Cut()
	defer plane.B.Relay.Refuse(false)
	space := namespace(t, "to-a")
	for _, k := range kinds {
		mirrorEverywhere(t, k, mustWrite(t, "POST", k.in(space), k.object("moved", 0)))
	}
}

// fillsMirror tells a list that a mirror is made of from a question. They differ in how much they ask for at once.
func fillsMirror(e audit.Entry) bool {
	return e.Verb == "list" && strings.Contains(e.URI, "limit=500")
}

// catchesUp tells a second watch of a feed, which ends soon, from the one that feeds the mirror.
func catchesUp(e audit.Entry) bool {
	asked, err := url.Parse(e.URI)
	return err == nil && e.Verb == "watch" && asked.Query().Get("timeoutSeconds") == "3"
}
