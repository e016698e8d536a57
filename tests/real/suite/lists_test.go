package suite

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
)

// collections are the paths and selectors whose lists are compared.
var collections = []string{
	"/api/v1/pods?",
	"/api/v1/namespaces/lock/pods?",
	"/api/v1/pods?labelSelector=app%3Dpump",
	"/api/v1/pods?labelSelector=tier%20in%20(water,spare),app",
	"/api/v1/pods?fieldSelector=spec.nodeName%3Dgate-1",
	"/api/v1/namespaces/lock/pods?fieldSelector=metadata.name%3Dpump-1",
	"/api/v1/pods?fieldSelector=status.phase%3DPending,spec.restartPolicy!%3DNever",
	"/api/v1/configmaps?",
	"/api/v1/namespaces/lock/configmaps?",
	"/api/v1/namespaces/lock-a/configmaps?labelSelector=!app",
	"/api/v1/configmaps?fieldSelector=metadata.namespace%3Dlock",
	"/api/v1/namespaces/dry/configmaps?",
	"/api/v1/namespaces/nowhere/configmaps?",
	"/api/v1/configmaps?labelSelector=app%3Dnobody",
	"/api/v1/secrets?",
	"/api/v1/namespaces/lock/secrets?fieldSelector=type%3DOpaque",
	"/api/v1/nodes?",
	"/api/v1/nodes?labelSelector=bank%3Dleft",
	"/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue",
	"/api/v1/services?",
	"/api/v1/namespaces/lock/services?",
	"/api/v1/namespaces?labelSelector=reach",
	"/api/v1/namespaces?fieldSelector=metadata.name%3Dlock",
	"/apis/apps/v1/deployments?",
	"/apis/apps/v1/namespaces/lock-a/deployments?",
	"/apis/metering.weir.test/v1/gauges?",
	"/apis/metering.weir.test/v1/namespaces/lock/gauges?",
	"/apis/metering.weir.test/v1/namespaces/lock-a/gauges?labelSelector=app",
	"/apis/metering.weir.test/v1/gauges?fieldSelector=spec.color%3Dred",
	"/apis/metering.weir.test/v1/namespaces/dry/gauges?",
	"/apis/metering.weir.test/v1/depots?",
	"/apis/metering.weir.test/v1/depots?labelSelector=bank%3Dleft",
	"/apis/metering.weir.test/v1/depots?fieldSelector=metadata.name%3Deast",
}

// comparedHeaders are those that a client can act upon.
var comparedHeaders = []string{"Content-Type", "Content-Encoding", "Cache-Control", "Warning", "Retry-After"}

// TestEN01_ListsEqualUpstreamByteForByte asks weir for its state, and then both for exactly that revision.
func TestEN01_ListsEqualUpstreamByteForByte(t *testing.T) {
	t.Parallel()
	for _, pretty := range []string{"", "&pretty=true"} {
		for _, path := range collections {
			t.Run(path+pretty, func(t *testing.T) {
				t.Parallel()
				weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
				state := getMirrored(t, weir, path+pretty+"&resourceVersion=0")
				rv := parseList(t, state.Body).RV()
				exact := fmt.Sprintf("%s%s&resourceVersion=%d&resourceVersionMatch=Exact", path, pretty, rv)
				truth := upstream.Get(t, exact)
				assertSameAnswer(t, "rv=0", state, truth)
				assertSameAnswer(t, "Exact", getMirrored(t, weir, exact), truth)
			})
		}
	}
}

// TestPG04_LimitWithResourceVersionZeroGivesTheWholeList also asks for a list that is not older than the one before.
func TestPG04_LimitWithResourceVersionZeroGivesTheWholeList(t *testing.T) {
	t.Parallel()
	for _, path := range collections {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
			first := parseList(t, getMirrored(t, weir, path+"&resourceVersion=0").Body).RV()
			for _, query := range []string{
				"&limit=1&resourceVersion=0",
				fmt.Sprintf("&resourceVersion=%d", first),
				fmt.Sprintf("&resourceVersion=%d&resourceVersionMatch=NotOlderThan", first),
			} {
				answer := getMirrored(t, weir, path+query)
				rv := parseList(t, answer.Body).RV()
				if rv < first {
					t.Errorf("%s: revision %d after %d", query, rv, first)
				}
				exact := fmt.Sprintf("%s&resourceVersion=%d&resourceVersionMatch=Exact", path, rv)
				assertSameAnswer(t, query, answer, upstream.Get(t, exact))
			}
		})
	}
}

// TestListsFollowWritesAndNeverGoBack has readers ask again and again while there are writes.
func TestListsFollowWritesAndNeverGoBack(t *testing.T) {
	t.Parallel()
	const readers, rounds = 4, 25
	for _, k := range bothKinds {
		space := namespace(t)
		upstream := direct(t, cluster.AdminToken)
		written := make(chan struct{})
		var group sync.WaitGroup
		for range readers {
			weir := mirrored(t, cluster.AdminToken)
			group.Go(func() {
				var shown []uint64
				for done := false; !done; {
					select {
					case <-written:
						done = true
					default:
					}
					answer, err := weir.Send(t.Context(), client.Request{Path: k.in(space) + "?resourceVersion=0"})
					if t.Context().Err() != nil {
						return // the test has ended early
					}
					if err != nil {
						t.Error(err)
						return
					}
					list, err := client.ParseList(answer.Body)
					if err != nil {
						t.Error(err)
						return
					}
					shown = append(shown, list.RV())
				}
				report(t, k.plural, record.CheckProgress(shown))
			})
		}
		for round := range rounds {
			rv := write(t, upstream, http.MethodPost, k.in(space), k.object(fmt.Sprintf("w-%d", round), ""))
			if list := awaitMirror(t, mirrored(t, cluster.AdminToken), k.in(space), rv); len(list.Items) != round+1 {
				t.Errorf("%s: %d objects at %d, want %d", k.plural, len(list.Items), list.RV(), round+1)
			}
		}
		close(written)
		group.Wait()
	}
}

// TestCS08_GetFromTheMirrorEqualsUpstream reads single objects with revisions that a cache may answer.
func TestCS08_GetFromTheMirrorEqualsUpstream(t *testing.T) {
	t.Parallel()
	weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	for _, path := range []string{
		"/api/v1/namespaces/lock/pods/pump", "/api/v1/namespaces/lock/configmaps/names", "/api/v1/nodes/gate-2",
		"/apis/apps/v1/namespaces/lock/deployments/pump", "/apis/metering.weir.test/v1/namespaces/lock/gauges/south",
		"/apis/metering.weir.test/v1/depots/east",
	} {
		truth := upstream.Get(t, path)
		object, err := client.ParseObject(truth.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{"?resourceVersion=0", "?resourceVersion=" + object.Metadata.ResourceVersion, "?resourceVersion=0&pretty=1"} {
			truth := upstream.Get(t, path+query)
			assertSameAnswer(t, path+query, getMirrored(t, weir, path+query), truth)
		}
	}
}

// assertSameAnswer compares status, the headers that matter, and every byte.
func assertSameAnswer(t testing.TB, what string, got, want client.Answer) {
	t.Helper()
	if got.Status != want.Status {
		t.Errorf("%s: status %d, upstream %d\n got: %s\nwant: %s", what, got.Status, want.Status, client.Excerpt(got.Body), client.Excerpt(want.Body))
		return
	}
	for _, name := range comparedHeaders {
		if g, w := got.Header.Values(name), want.Header.Values(name); fmt.Sprint(g) != fmt.Sprint(w) {
			t.Errorf("%s: header %s is %q, upstream %q", what, name, g, w)
		}
	}
	if !bytes.Equal(got.Body, want.Body) {
		g, w := fromDifference(got.Body, want.Body)
		t.Errorf("%s: other bytes (%d, upstream %d), from where they differ:\n got: %s\nwant: %s", what, len(got.Body), len(want.Body), g, w)
	}
}

// fromDifference cuts what two bodies share at their beginning, but for a little context.
func fromDifference(a, b []byte) (string, string) {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	const context, most = 40, 240
	from := max(0, same-context)
	cut := func(body []byte) string { return string(body[from:min(len(body), from+most)]) }
	return cut(a), cut(b)
}
