package fresh

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// auditLog is the log of all apiservers of the run.
var auditLog = sync.OnceValue(func() *audit.Log {
	files := map[string]string{}
	for _, instance := range plane.Instances {
		files[instance.Name] = instance.Audit
	}
	return audit.NewLog(files)
})

// spans reads the audit logs after everything that was answered so far is in them.
func spans(t testing.TB, filter audit.Filter) []audit.Span {
	t.Helper()
	fence(t)
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

// fence waits until a request of its own is in the log of every instance.
func fence(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	mark := agent("fence")
	for _, instance := range plane.Instances {
		c := client.New(instance.Direct(), cluster.AdminToken, mark)
		if _, err := c.Send(ctx, client.Request{Path: "/version"}); err != nil {
			t.Fatalf("fence at %s: %v", instance.Name, err)
		}
		c.Close()
		eventually(t, "the fence in the log of "+instance.Name, 10*time.Second, func() error {
			found, err := auditLog().Select(audit.Filter{AgentPrefix: mark, Instance: instance.Name})
			if err == nil && len(found) == 0 {
				err = errors.New("not there")
			}
			return err
		})
	}
}

// eventually repeats an attempt until it succeeds or the limit has passed.
func eventually(t testing.TB, what string, limit time.Duration, attempt func() error) {
	t.Helper()
	if err := within(limit, attempt); err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, err)
	}
}

// within is eventually for those who go on: it gives the last failure.
func within(limit time.Duration, attempt func() error) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := attempt()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// pause is the time that something is left as it is; it ends early with the context.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// mirrorEverywhere makes weir mirror a kind, in all its forms, and waits until the mirrors have come to a revision.
func mirrorEverywhere(t testing.TB, k kind, rv uint64) {
	t.Helper()
	if isPlain() {
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
	eventually(t, fmt.Sprintf("%s at %s mirrored at %d", k.plural, endpoint.URL, rv), limit, func() error {
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
			err := within(limit, func() error {
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
