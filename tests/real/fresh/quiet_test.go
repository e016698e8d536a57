package fresh

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/wait"
)

// The times of a quiet kind: how long nothing is written to it, and how often weir moves its mirror and tells its watches.
const (
	quietFor     = 75 * time.Second
	movedEvery   = 30 * time.Second
	toldEvery    = 60 * time.Second
	someSlowness = 15 * time.Second
)

// idler is a watch of a kind that nobody writes to.
type idler struct {
	form     *form
	endpoint client.Endpoint
	stream   *client.Stream
	mark     uint64 // of the last bookmark
}

// written is when a revision was acknowledged.
type written struct {
	rv uint64
	at time.Time
}

// TestBW09_QuietKindsStayYoung leaves a kind alone while others are written to. Its watches stay open and are told
// where upstream is; from there they can go on after upstream has forgotten everything before, over other connections, and
// nothing of it is asked of upstream.
func TestBW09_QuietKindsStayYoung(t *testing.T) {
	judgesWeirItself(t)
	t.Parallel()
	k, space := limitRanges, namespace(t, "quiet")
	first := mustWrite(t, http.MethodPost, k.in(space), k.object("alone", 0))
	mirrorEverywhere(t, k, first)
	last, since := mustWrite(t, http.MethodPost, k.in(space), k.object("last", 0)), time.Now()
	mirrorEverywhere(t, k, last)
	idlers := idle(t, k, space, last)
	late := writeElsewhere(t, since.Add(quietFor))
	for _, i := range idlers {
		i.awaitMark(t, late)
	}
	forget(t, space)
	for _, instance := range plane.Instances {
		instance.Relay.Cut()
	}
	goOn(t, k, space, idlers)
	for _, s := range of(spans(t, audit.Filter{Since: since.Add(someSlowness), Resource: k.plural, Verb: "list"}), audit.Feed) {
		if fillsMirror(s.Entry) {
			t.Errorf("weir listed the quiet kind again: %s", s)
		}
	}
}

// idle opens a watch of the kind at every place.
func idle(t testing.TB, k kind, space string, from uint64) []*idler {
	t.Helper()
	var all []*idler
	for _, f := range forms {
		for _, endpoint := range f.weir.Endpoints {
			c := caller(t, endpoint, "idler")
			path := fmt.Sprintf("%s?watch=1&allowWatchBookmarks=true&resourceVersion=%d&timeoutSeconds=600", k.in(space), from)
			all = append(all, &idler{form: f, endpoint: endpoint, stream: c.MustWatch(t, path)})
		}
	}
	return all
}

// writeElsewhere changes an object of another kind every second until the time has come, and returns the revision of
// movedEvery before: no bookmark of then may be older, however rarely its mirror is moved.
func writeElsewhere(t testing.TB, until time.Time) uint64 {
	t.Helper()
	space := namespace(t, "elsewhere")
	mustWrite(t, http.MethodPost, gauges.in(space), gauges.object("other", 0))
	var all []written
	for turn := 1; time.Now().Before(until); turn++ {
		rv := mustWrite(t, http.MethodPatch, gauges.in(space)+"/other", gauges.object("other", turn))
		all = append(all, written{rv, time.Now()})
		wait.Pause(t.Context(), time.Second)
	}
	young := all[0]
	for _, w := range all {
		if until.Sub(w.at) >= movedEvery+someSlowness {
			young = w
		}
	}
	return young.rv
}

// awaitMark reads bookmarks, and nothing else may come, until one is at the revision or later.
func (i *idler) awaitMark(t testing.TB, rv uint64) {
	t.Helper()
	for deadline := time.Now().Add(toldEvery + someSlowness); i.mark < rv; {
		event, err := i.stream.Next(time.Until(deadline))
		if err != nil {
			t.Fatalf("%s: no bookmark at %d or later, the last one was at %d: %v", i.form.name, rv, i.mark, err)
		}
		if event.Type != "BOOKMARK" {
			t.Fatalf("%s: on a watch of what nobody writes to: %s", i.form.name, event.Line)
		}
		i.mark = event.Meta().RV()
	}
}

// forget lets upstream's store forget everything before now.
func forget(t testing.TB, space string) {
	t.Helper()
	now := mustWrite(t, http.MethodPost, configMaps.in(space), configMaps.object("now", 0))
	if err := plane.Compact(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	has, err := plane.Has(t.Context(), now-1)
	if err == nil && has {
		err = errors.New("it is still there")
	}
	if err != nil {
		t.Fatalf("revision %d in the store: %v", now-1, err)
	}
}

// goOn ends every watch and opens it again where it was told to be, as clients do, and expects the next change there.
func goOn(t testing.TB, k kind, space string, idlers []*idler) {
	t.Helper()
	for _, i := range idlers {
		i.stream.Close()
	}
	var clients []*client.Client
	for _, i := range idlers {
		c := caller(t, i.endpoint, "resumed")
		clients = append(clients, c)
		i.stream = c.MustWatch(t, fmt.Sprintf("%s?watch=1&allowWatchBookmarks=true&resourceVersion=%d", k.in(space), i.mark))
		if !client.FromMirror(i.stream.Header) {
			t.Errorf("%s: %q went on with a quiet watch", i.form.name, i.stream.Header.Get(client.AnsweredBy))
		}
	}
	rv := mustWrite(t, http.MethodPost, k.in(space), k.object("next", 0))
	for n, i := range idlers {
		for event := (client.Event{}); event.Type != "ADDED"; {
			event = i.stream.Must(t, streamLimit)
			if event.Type != "BOOKMARK" && (event.Type != "ADDED" || event.Meta().RV() != rv) {
				t.Fatalf("%s: %s came first, want the object at %d", i.form.name, event.Line, rv)
			}
		}
		if seen := spans(t, audit.Filter{AgentPrefix: clients[n].Agent}); len(seen) > 0 {
			t.Errorf("%s: upstream saw %s", i.form.name, seen[0])
		}
	}
}
