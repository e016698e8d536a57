package suite

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"golang.org/x/sync/errgroup"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// frame is one line of a stream as far as two servers must agree on it: bookmarks may name other revisions.
type frame string

var revision = regexp.MustCompile(`"resourceVersion":"\d+"`)

func frames(events []client.Event) []frame {
	var all []frame
	for _, event := range events {
		line := event.Line
		if event.Type == "BOOKMARK" {
			line = revision.ReplaceAll(line, []byte(`"resourceVersion":"…"`))
		}
		all = append(all, frame(line))
	}
	return all
}

// assertSameStream opens a watch that ends by itself at both servers and compares every frame. Bookmarks that are not
// the end of the initial events depend on the moment and are left out.
func assertSameStream(t testing.TB, query string, weir, upstream *client.Client) {
	t.Helper()
	var got, want []client.Event
	var group errgroup.Group
	stream := watchMirrored(t, weir, query)
	group.Go(func() (err error) {
		got, err = stream.Rest(patience)
		return err
	})
	reference := upstream.MustWatch(t, query)
	group.Go(func() (err error) {
		want, err = reference.Rest(patience)
		return err
	})
	if err := group.Wait(); err != nil {
		t.Errorf("%s: %v", query, err)
		return
	}
	if g, w := stream.Header.Get("Content-Type"), reference.Header.Get("Content-Type"); g != w {
		t.Errorf("%s: content type %q, upstream %q", query, g, w)
	}
	compareFrames(t, query, frames(settled(got)), frames(settled(want)))
}

func settled(events []client.Event) []client.Event {
	var kept []client.Event
	for _, event := range events {
		if event.Type != "BOOKMARK" || event.Meta().EndsInitialEvents() {
			kept = append(kept, event)
		}
	}
	return kept
}

func compareFrames(t testing.TB, query string, got, want []frame) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			g, w := fromDifference([]byte(got[i]), []byte(want[i]))
			t.Errorf("%s: event %d\n got: %s\nwant: %s", query, i, g, w)
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d events, upstream sent %d", query, len(got), len(want))
	}
}

// TestBW01_InitialEventsAsUpstream goes through the combinations of what a watch may ask of the initial state.
func TestBW01_InitialEventsAsUpstream(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		weir := mirrored(t, cluster.AdminToken)
		_, space, last := story(t, k)
		awaitMirror(t, weir, k.in(space), last)
		for _, start := range []string{
			"resourceVersion=0",
			fmt.Sprintf("resourceVersion=%d", last),
			"resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
			fmt.Sprintf("resourceVersion=%d&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", last),
			"resourceVersion=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
			"resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
			fmt.Sprintf("resourceVersion=%d&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", last),
		} {
			for _, rest := range []string{"", "&allowWatchBookmarks=true", "&allowWatchBookmarks=true&labelSelector=color%3Dred", "&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dsecond"} {
				t.Run(k.plural+" "+start+rest, func(t *testing.T) {
					t.Parallel()
					weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
					assertSameStream(t, k.in(space)+"?watch=1&timeoutSeconds=2&"+start+rest, weir, upstream)
				})
			}
		}
	}
}

// TestSE06_OldWatchPaths uses the paths that put "watch" in front of the collection.
func TestSE06_OldWatchPaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/api/v1/watch/namespaces/lock/pods?resourceVersion=0&timeoutSeconds=1",
		"/api/v1/watch/namespaces/lock/pods/pump?resourceVersion=0&timeoutSeconds=1&allowWatchBookmarks=true",
		"/api/v1/watch/namespaces/lock/pods/absent?resourceVersion=0&timeoutSeconds=1",
		"/api/v1/watch/nodes?resourceVersion=0&timeoutSeconds=1",
		"/api/v1/watch/nodes?timeoutSeconds=1&watch=0",
		"/api/v1/watch/namespaces/lock?resourceVersion=0&timeoutSeconds=1",
		"/apis/metering.weir.test/v1/watch/namespaces/lock/gauges?resourceVersion=0&timeoutSeconds=1&labelSelector=app%3Dpump",
		"/apis/metering.weir.test/v1/watch/depots/east?resourceVersion=0&timeoutSeconds=1",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			assertSameStream(t, path, mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken))
		})
	}
}

// TestSE08_WatchObeysTheSelectorOfTheList opens the initial events of every collection that is also listed.
func TestSE08_WatchObeysTheSelectorOfTheList(t *testing.T) {
	t.Parallel()
	const named = "fieldSelector=metadata.name"
	for _, path := range collections {
		if path == "/api/v1/configmaps?" || path == "/apis/metering.weir.test/v1/gauges?" || bytes.Contains([]byte(path), []byte(named)) {
			continue // other tests write to these meanwhile, or the name is a test of its own
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			query := path + "&watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=0"
			assertSameStream(t, query, mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken))
		})
	}
}

// badQueries are refused before anything is read; upstream's body is the expectation.
var badQueries = []string{
	"limit=abc", "limit=", "timeoutSeconds=abc", "timeoutSeconds=1.5", "resourceVersion=abc", "resourceVersion=-1",
	"resourceVersionMatch=Exact", "resourceVersionMatch=exact&resourceVersion=5", "resourceVersionMatch=Exact&resourceVersion=0",
	"resourceVersionMatch=NotOlderThan", "sendInitialEvents=true", "sendInitialEvents=false&resourceVersion=0",
	"labelSelector=a%3D%3D%3Db", "labelSelector=a+in+(", "labelSelector=-a", "fieldSelector=a", "fieldSelector=spec.nothing%3Dx",
	"continue=bad", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhXHUwMDAwIn0",
	"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi9hXHUwMDAwIn0",
	"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhXHUwMDAwIn0&resourceVersion=5",
	"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhXHUwMDAwIn0&resourceVersionMatch=NotOlderThan",
	"watch=1&resourceVersionMatch=Exact&resourceVersion=5", "watch=1&sendInitialEvents=true",
	"watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", "watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=5",
	"watch=1&timeoutSeconds=x&resourceVersion=0", "watch=1&fieldSelector=spec.nothing%3Dx&resourceVersion=0",
	"watch=1&limit=x", "watch=1&labelSelector=%3D", "timeout=abc&resourceVersion=0",
}

// TestBadRequestsAreRefusedAsUpstreamDoes compares whole answers.
func TestBadRequestsAreRefusedAsUpstreamDoes(t *testing.T) {
	t.Parallel()
	weir, upstream := through(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	for _, path := range []string{configMaps.in("lock"), gauges.in("lock"), "/api/v1/nodes", "/api/v1/pods"} {
		for _, query := range badQueries {
			for _, pretty := range []string{"", "&pretty=1"} {
				request := client.Request{Path: path + "?" + query + pretty}
				want := upstream.Must(t, request)
				if want.Status < 400 {
					t.Fatalf("upstream took %s: %d", request.Path, want.Status)
				}
				assertSameAnswer(t, request.Path, weir.Must(t, request), want)
			}
		}
	}
}

// TestWatchWithABadRevisionIsABadRequest is one of weir's own rulings: upstream answers 500.
func TestWatchWithABadRevisionIsABadRequest(t *testing.T) {
	t.Parallel()
	want := 400
	if plane.Weir.Plain {
		want = 500
	}
	_, err := through(t, cluster.AdminToken).Watch(t.Context(), configMaps.in("lock")+"?watch=1&resourceVersion=abc")
	var refused *client.Refused
	if !errors.As(err, &refused) || refused.Answer.Status != want {
		t.Errorf("got %v, want %d", err, want)
	}
}
