package fresh

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
	"weir.dev/tests/real/wait"
)

// What each proxy passes through at once for want of a mirror, and the one list of a kind that would be no use to mirror.
const (
	gateLists   = 8
	gateWatches = 50
	loneLists   = 1
)

// What weir itself asks at once of each kind: what fills the mirror, what feeds it, and what is compared, with the newest
// revision, with one namespace and by the self-check. A second watch is opened before the one that it follows is left.
const (
	ownFillings   = 1
	ownWatches    = 1
	ownCatchingUp = 2
	ownQuestions  = 3
)

const (
	manyNewcomers = 5_000
	fewNewcomers  = 500
	perConnection = 100
	coldLimit     = 5 * time.Minute
)

// coldKinds are what the newcomers read.
var coldKinds = []kind{configMaps, serviceAccounts, gauges}

// newcomers is how many come: WEIR_NEWCOMERS, else what the mode says.
func newcomers(t testing.TB) int {
	t.Helper()
	if text := os.Getenv("WEIR_NEWCOMERS"); text != "" {
		number, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	if modes.IsLong() {
		return manyNewcomers
	}
	return fewNewcomers
}

// TestOV05_AColdStartIsNoHerd lets clients come to a weir that has just started and mirrors nothing yet.
func TestOV05_AColdStartIsNoHerd(t *testing.T) {
	judgesWeirItself(t)
	for name, topology := range topologies {
		t.Run(name, func(t *testing.T) { coldStart(t, topology) })
	}
}

func coldStart(t *testing.T, topology cluster.Topology) {
	number, space := newcomers(t), namespace(t, "cold")
	for _, k := range coldKinds {
		for i := range shelved {
			mustWrite(t, http.MethodPost, k.in(space), k.object(fmt.Sprintf("cold-%d", i), 0))
		}
	}
	weir, err := plane.StartAs(t.Context(), fmt.Sprintf("cold-%d", serial.Add(1)), topology, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weir.Kill)
	role, since := fmt.Sprintf("cold-%d", serial.Add(1)), time.Now()
	mark := fmt.Sprintf("mark-%d", serial.Add(1))
	c := rush(t, weir, number, role, mark, func() {
		for _, k := range coldKinds {
			mustWrite(t, http.MethodPost, k.in(space), k.object(mark, 0))
		}
	})
	t.Logf("%d newcomers in %.1f s; told to come later %d times, again from the start %d times; %v",
		number, time.Since(since).Seconds(), c.toldLater.Load(), c.relists.Load(), c.by)
	if c.toldLater.Load() == 0 {
		t.Error("nobody was told to come later: the gates were not reached")
	}
	assertNoHerd(t, weir, role, since)
	for _, k := range coldKinds {
		assertAtHome(t, weir, k)
	}
}

// rush starts all newcomers at once, and marks the end when all have an open watch.
func rush(t *testing.T, weir *cluster.Weir, number int, role, mark string, end func()) *crush {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), coldLimit)
	defer cancel()
	c := &crush{by: map[string]int{}}
	failed := make(chan error, number)
	var group sync.WaitGroup
	queries := []string{"", "resourceVersion=0"}
	var connection *client.Client
	for i := range number {
		if i%perConnection == 0 {
			connection = caller(t, weir.Endpoint(i/perConnection), role)
		}
		n := &newcomer{
			client: connection, kind: coldKinds[i%len(coldKinds)], streams: i%4 == 3, query: queries[i%2], await: mark, crush: c,
		}
		group.Go(func() {
			if err := n.live(ctx); err != nil {
				failed <- err
			}
		})
	}
	for c.in.Load() < int64(number) && ctx.Err() == nil && len(failed) == 0 {
		wait.Pause(ctx, 50*time.Millisecond)
	}
	end()
	group.Wait()
	close(failed)
	var all []error
	for err := range failed {
		all = append(all, err)
	}
	if len(all) > 0 {
		t.Errorf("%d of %d newcomers were not served: %v", len(all), number, errors.Join(all[:min(3, len(all))]...))
	}
	return c
}

// assertNoHerd counts what went on at once at upstream. Reviews of rights are no lists and no watches.
func assertNoHerd(t *testing.T, weir *cluster.Weir, role string, since time.Time) {
	t.Helper()
	proxies := len(weir.Endpoints)
	theirs := spans(t, audit.Filter{AgentPrefix: "fresh-" + role + "/"})
	atMost(t, "lists of clients", (gateLists+loneLists*len(coldKinds))*proxies, keep(theirs, isList))
	atMost(t, "watches of clients", gateWatches*proxies, keep(theirs, isWatch))
	for _, k := range coldKinds {
		own := of(spans(t, audit.Filter{Since: since, Resource: k.plural}), audit.Feed)
		feeds := func(e audit.Entry) bool { return isWatch(e) && !catchesUp(e) }
		asks := func(e audit.Entry) bool { return isList(e) && !fillsMirror(e) }
		atMost(t, "lists for the mirror, "+k.plural, ownFillings, keep(own, fillsMirror))
		atMost(t, "watches for the mirror, "+k.plural, ownWatches, keep(own, feeds))
		atMost(t, "second watches, "+k.plural, ownCatchingUp, keep(own, catchesUp))
		atMost(t, "questions, "+k.plural, ownQuestions, keep(own, asks))
	}
}

func atMost(t *testing.T, what string, most int, all []audit.Span) {
	t.Helper()
	got := audit.AtOnce(all)
	t.Logf("%5d %s, %d at once", len(all), what, got)
	if got > most {
		t.Errorf("%s: %d at once, want %d at most", what, got, most)
	}
}

func keep(all []audit.Span, takes func(audit.Entry) bool) []audit.Span {
	return slices.DeleteFunc(slices.Clone(all), func(s audit.Span) bool { return !takes(s.Entry) })
}

func isList(e audit.Entry) bool { return e.Verb == "list" }

func isWatch(e audit.Entry) bool { return e.Verb == "watch" }
