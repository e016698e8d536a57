package suite

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
)

// TestSH05_ShardedWatchesPartitionTheLog watches every range of every partition through one history, live from its
// beginning; then the history is replayed, and the state is streamed.
func TestSH05_ShardedWatchesPartitionTheLog(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		t.Run(k.plural, func(t *testing.T) {
			t.Parallel()
			space := namespace(t)
			upstream, weir := direct(t, cluster.AdminToken), mirrored(t, cluster.AdminToken)
			from := beginning(t, k, space)
			recorder := record.StartAt(t, upstream, k.in(space), from)
			live := map[shardRange]*client.Stream{}
			for _, n := range shardCounts {
				for _, r := range partition("uid", n) {
					query := fmt.Sprintf("%s?watch=1&resourceVersion=%d%s", k.in(space), from, r.query())
					live[r] = watchMirrored(t, weir, query)
				}
			}
			last := shuffle(t, upstream, k, space)
			if err := recorder.Await(last, patience); err != nil {
				t.Fatal(err)
			}
			for r, stream := range live {
				wanted := recorder.Events(r.takes, from, last)
				events := stream.Take(t, len(wanted), patience)
				report(t, r.String(), record.CheckWatch(recorder.History, r.takes, record.Watched{After: from, UpTo: last, Events: events}))
			}
			awaitMirror(t, weir, k.in(space), last)
			for r := range live {
				replayShard(t, recorder, k, space, r, last)
			}
		})
	}
}

// shuffle creates, changes, deletes and recreates objects, and returns the last revision.
func shuffle(t testing.TB, upstream *client.Client, k kind, space string) uint64 {
	t.Helper()
	for i := range 24 {
		name := fmt.Sprintf("s-%02d", i)
		write(t, upstream, http.MethodPost, k.in(space), k.object(name, `"step":"1"`))
		if i%2 == 0 {
			write(t, upstream, http.MethodPatch, k.in(space)+"/"+name, []byte(`{"metadata":{"labels":{"step":"2"}}}`))
		}
		if i%3 == 0 {
			write(t, upstream, http.MethodDelete, k.in(space)+"/"+name, nil)
		}
		if i%6 == 0 {
			write(t, upstream, http.MethodPost, k.in(space), k.object(name, `"step":"3"`))
		}
	}
	return write(t, upstream, http.MethodPost, k.in(space), k.object("z", `"step":"4"`))
}

// replayShard resumes in the middle of the history, and opens a stream of the state.
func replayShard(t *testing.T, recorder *record.Recorder, k kind, space string, r shardRange, last uint64) {
	t.Helper()
	weir := mirrored(t, cluster.AdminToken)
	from, _ := recorder.Bounds()
	middle := from + (last-from)/2
	stream := watchMirrored(t, weir, fmt.Sprintf("%s?watch=1&resourceVersion=%d%s", k.in(space), middle, r.query()))
	defer stream.Close()
	wanted := recorder.Events(r.takes, middle, last)
	events := stream.Take(t, len(wanted), patience)
	report(t, "resume "+r.String(), record.CheckWatch(recorder.History, r.takes, record.Watched{After: middle, UpTo: last, Events: events}))

	state := watchMirrored(t, weir, k.in(space)+"?watch=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"+r.query())
	defer state.Close()
	events = nil
	for len(events) == 0 || !events[len(events)-1].Meta().EndsInitialEvents() {
		events = append(events, state.Must(t, patience))
	}
	// The bookmark may be past the record, which ends with this namespace's last change; the state is the same.
	items, err := recorder.Snapshot(r.takes, last)
	if err != nil {
		t.Fatal(err)
	}
	if len(items) != len(events)-1 {
		t.Errorf("watch list of %s: %d objects, want %d", r, len(events)-1, len(items))
		return
	}
	for i, item := range items {
		got, err := record.NewItem(events[i].Object)
		if err != nil || !bytes.Equal(got.Bytes, item.Bytes) {
			t.Errorf("watch list of %s: object %d is %s, want %s (%v)", r, i, got.Bytes, item.Bytes, err)
		}
	}
}

// TestSH05_ShardedStreamsEqualUpstreamWithTheFeature compares frames.
func TestSH05_ShardedStreamsEqualUpstreamWithTheFeature(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		recorder, space, last := story(t, k)
		awaitMirror(t, mirrored(t, cluster.AdminToken), k.in(space), last)
		from, _ := recorder.Bounds()
		for _, start := range []string{
			fmt.Sprintf("resourceVersion=%d&labelSelector=color%%3Dred", from),
			"resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
			"resourceVersion=0",
		} {
			for _, r := range partition("uid", 4) {
				t.Run(k.plural+" "+start+r.String(), func(t *testing.T) {
					t.Parallel()
					assertSameStream(t, k.in(space)+"?watch=1&timeoutSeconds=2&"+start+r.query(), mirrored(t, cluster.AdminToken), gated(t))
				})
			}
		}
	}
}
