package suite

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
	"weir.dev/tests/real/wait"
)

// lostWrites is how many changes the disaster forgets; the new history needs as many to reach the old revisions again.
const lostWrites = 150

// detection bounds how long weir may take to see that upstream's history went back. It asks when its feeds reconnect.
const detection = time.Minute

// disaster is a control plane of its own whose etcd is put back to an older copy.
type disaster struct {
	t        *testing.T
	plane    *cluster.Cluster
	weir     *client.Client
	upstream *client.Client
}

// TestCS05_RestoredBackupEndsTheOldHistory writes, puts an older copy of the data back, and demands that weir ends every
// watch with 410 and serves the new history only, even after that has passed the old one's revisions.
func TestCS05_RestoredBackupEndsTheOldHistory(t *testing.T) {
	plain := modes.IsPlain()
	own, err := cluster.Start(t.Context(), cluster.Options{
		Mirrors: []string{"configmaps", "gauges.metering.weir.test"}, Topology: topology(), Plain: plain, Backup: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	d := &disaster{t, own, client.New(own.Weir.Endpoint(0), cluster.AdminToken, agent(t, "through")), own.Upstream(cluster.AdminToken, agent(t, "direct"))}
	old := d.write("lost", lostWrites)
	var streams []*client.Stream
	for _, k := range bothKinds {
		if list := awaitMirrorOf(t, plain, d.weir, k.in("lock"), old[k]); len(list.Items) < lostWrites {
			t.Fatalf("%s: %d objects before the disaster", k.plural, len(list.Items))
		}
		for _, query := range []string{"?watch=1&allowWatchBookmarks=true&resourceVersion=0", fmt.Sprintf("?watch=1&resourceVersion=%d", old[k])} {
			streams = append(streams, d.weir.MustWatch(t, k.in("lock")+query))
		}
	}
	if err := own.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.upstream = own.Upstream(cluster.AdminToken, agent(t, "direct"))
	for _, stream := range streams {
		d.assertEnded(stream)
	}
	d.assertNewHistory()
	d.assertOldRevisionRefused(old[configMaps])
	now := d.write("found", lostWrites+20)
	for k := range now {
		if now[k] <= old[k] {
			t.Fatalf("%s: the new history is at %d only, the old one was at %d", k.plural, now[k], old[k])
		}
	}
	d.assertNewHistory()
}

// write creates n objects of each kind and returns the last revision of each.
func (d *disaster) write(name string, n int) map[kind]uint64 {
	d.t.Helper()
	last := map[kind]uint64{}
	for i := range n {
		for _, k := range bothKinds {
			last[k] = write(d.t, d.upstream, http.MethodPost, k.in("lock"), k.object(fmt.Sprintf("%s-%d", name, i), ""))
		}
	}
	return last
}

// assertEnded reads what is left of a stream: it has to end, and by 410 if it is weir's.
func (d *disaster) assertEnded(stream *client.Stream) {
	d.t.Helper()
	var last client.Event
	for deadline := time.Now().Add(detection); ; {
		event, err := stream.Next(time.Until(deadline))
		if errors.Is(err, client.ErrQuiet) {
			d.t.Errorf("a watch of the old history is still open after %s", detection)
			return
		}
		if err != nil {
			if status := last.Status(); !d.plane.Weir.Plain && (!errors.Is(err, io.EOF) || last.Type != "ERROR" || status.Code != http.StatusGone) {
				d.t.Errorf("a watch of the old history ended with %v after %s", err, last.Line)
			}
			return
		}
		last = event
	}
}

// assertNewHistory compares weir's own state with upstream's: nothing of the lost objects, everything of the new.
func (d *disaster) assertNewHistory() {
	d.t.Helper()
	for _, k := range bothKinds {
		path := k.in("lock")
		now := parseList(d.t, d.upstream.Get(d.t, path).Body)
		wait.Eventually(d.t, k.plural+" of the new history from weir", detection, func() error {
			answer, err := d.weir.Send(d.t.Context(), client.Request{Path: path + "?resourceVersion=0"})
			if err != nil {
				return err
			}
			list, err := client.ParseList(answer.Body)
			if err != nil {
				return err
			}
			if strings.Contains(string(answer.Body), `"name":"lost-`) {
				d.t.Errorf("weir shows objects of the old history at %d", list.RV())
			}
			if len(list.Items) != len(now.Items) {
				return fmt.Errorf("%d objects at %d, upstream has %d at %d", len(list.Items), list.RV(), len(now.Items), now.RV())
			}
			exact := fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact", path, list.RV())
			assertSameAnswer(d.t, path, answer, d.upstream.Get(d.t, exact))
			return nil
		})
	}
}

// assertOldRevisionRefused resumes at a revision that upstream has not reached: a clear error, or upstream's own silence.
func (d *disaster) assertOldRevisionRefused(old uint64) {
	d.t.Helper()
	if d.plane.Weir.Plain {
		return // upstream waits for the revision and skips what comes before
	}
	stream := d.weir.MustWatch(d.t, fmt.Sprintf("%s?watch=1&resourceVersion=%d", configMaps.in("lock"), old))
	if event := stream.Must(d.t, patience); event.Type != "ERROR" || event.Status().Code != http.StatusGone {
		d.t.Errorf("a watch from the old history got %s, want 410", event.Line)
	}
}

// awaitMirrorOf is awaitMirror for a server that is not the run's own.
func awaitMirrorOf(t testing.TB, plain bool, c *client.Client, path string, rv uint64) client.List {
	t.Helper()
	var list client.List
	wait.Eventually(t, path, patience, func() error {
		answer := c.Get(t, path+"?resourceVersion=0")
		if !plain && !client.FromMirror(answer.Header) {
			return fmt.Errorf("%s is %q", client.AnsweredBy, answer.Header.Get(client.AnsweredBy))
		}
		if list = parseList(t, answer.Body); list.RV() < rv {
			return fmt.Errorf("at %d", list.RV())
		}
		return nil
	})
	return list
}
