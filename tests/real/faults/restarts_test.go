package faults

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

var auditLog = sync.OnceValue(func() *audit.Log { return audit.NewLog(plane.Instances...) })

// unasking is a load that gives weir no reason to ask upstream how new something is.
var unasking = pace{writesPerSecond: gentle.writesPerSecond, watchersOfEach: 1, listers: 2, queries: anyState}

// upstreamLists are the lists of whole collections that feeds asked of the apiservers, by resource.
func upstreamLists(t *testing.T, since time.Time) map[string][]audit.Entry {
	t.Helper()
	// What an answer of now follows in the log was there before.
	mark := "faults-fence/" + t.Name() + time.Now().Format(time.RFC3339Nano)
	for _, instance := range plane.Instances {
		c := client.New(instance.Direct(), cluster.AdminToken, mark)
		c.Must(t, client.Request{Path: "/version"})
		c.Close()
	}
	wait.Eventually(t, "the audit logs", patience, func() error {
		found, err := auditLog().Requests(audit.Filter{AgentPrefix: mark})
		if err == nil && len(found) < len(plane.Instances) {
			err = context.DeadlineExceeded
		}
		return err
	})
	lists := map[string][]audit.Entry{}
	for _, k := range kinds {
		entries, err := auditLog().Requests(audit.Filter{Since: since, Resource: k.plural})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range audit.From(entries, audit.Feed) {
			// What is about one name or one namespace asks how new something is; further pages belong to their list.
			isPart := strings.Contains(e.URI, "fieldSelector=metadata.name") || e.ObjectRef.Namespace != "" || strings.Contains(e.URI, "continue=")
			if !isPart && (e.Verb == "list" || strings.Contains(e.URI, "sendInitialEvents=true")) {
				lists[k.plural] = append(lists[k.plural], e)
			}
		}
	}
	return lists
}

// TestRF03_RollingRestartCostsNoList ends every process in turn, politely, and starts it again, while there are writes.
func TestRF03_RollingRestartCostsNoList(t *testing.T) {
	awaitWhole(t, fleet)
	l := startLoad(t, plane.Weir.Endpoints, 4, unasking)
	since := time.Now()
	for _, member := range fleet.Members() {
		began := time.Now()
		if err := member.Terminate(); err != nil {
			t.Error(err)
		}
		ended := time.Since(began)
		if err := member.Start(); err != nil {
			t.Fatal(err)
		}
		if err := member.AwaitReady(t.Context(), patience); err != nil {
			t.Fatal(err)
		}
		awaitWhole(t, fleet)
		t.Logf("%s ended within %.1f s and everything was whole after %.1f s, %d relists so far", member.Name, ended.Seconds(),
			time.Since(began).Seconds(), l.relists())
	}
	l.finish(t)
	l.assertNoRelist(t)
	for resource, lists := range upstreamLists(t, since) {
		t.Errorf("feeds listed %s %d times, first %s", resource, len(lists), lists[0])
	}
	warm := 0.0
	for _, metrics := range read(t.Context(), fleet) {
		warm += metrics.Sum(warmStarts)
	}
	if warm < float64(len(fleet.Nodes)) {
		t.Errorf("%v warm starts were counted on %d restarted nodes", warm, len(fleet.Nodes))
	}
}

// TestKilledProxyCostsOneReconnect kills a proxy: each of its clients goes on at the other from where it was.
func TestKilledProxyCostsOneReconnect(t *testing.T) {
	awaitWhole(t, fleet)
	l := startLoad(t, plane.Weir.Endpoints, 5, gentle)
	victims := l.at(0)
	if len(victims) == 0 {
		t.Fatal("nobody watches at proxy 0")
	}
	streams := map[*watcher]int{}
	for _, w := range victims {
		streams[w] = w.snapshot().Streams
	}
	fleet.Proxies[0].Kill()
	for _, w := range victims {
		wait.Eventually(t, w.String()+" is at the other proxy", patience, func() error {
			if s := w.snapshot(); s.Proxy == 0 {
				return context.DeadlineExceeded
			}
			return nil
		})
	}
	known := map[kind]uint64{pods: l.acknowledged(pods), gauges: l.acknowledged(gauges)}
	for _, w := range victims {
		wait.Eventually(t, w.String()+" has what was written meanwhile", patience, func() error {
			if w.owed(known[w.kind]) > 0 {
				return context.DeadlineExceeded
			}
			return nil
		})
		if s := w.snapshot(); s.Streams != streams[w]+1 {
			t.Errorf("%s: %d streams, want one more than %d: %v", w, s.Streams, streams[w], s.Latest)
		}
	}
	if err := fleet.Proxies[0].Start(); err != nil {
		t.Fatal(err)
	}
	awaitWhole(t, fleet)
	l.finish(t)
	l.assertNoRelist(t)
}

// TestOneReplicaOfEveryShardKilledAtOnce takes half of the nodes away, one of each shard, among them whatever fed the others.
func TestOneReplicaOfEveryShardKilledAtOnce(t *testing.T) {
	const rounds = 2
	awaitWhole(t, fleet)
	l := startLoad(t, plane.Weir.Endpoints, 9, gentle)
	since := time.Now()
	for round := range rounds {
		var group sync.WaitGroup
		for shard := range shards {
			node := fleet.Node(shard, (round+shard)%replicas)
			group.Go(func() {
				if err := node.Restart(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		awaitWhole(t, fleet)
	}
	t.Logf("%d rounds took %.1f s", rounds, time.Since(since).Seconds())
	l.finish(t)
	l.assertNoRelist(t)
}

// TestAllNodesKilled takes every copy away. Upstream sees one list of each mirror, not one for each node.
func TestAllNodesKilled(t *testing.T) {
	awaitWhole(t, fleet)
	l := startLoad(t, plane.Weir.Endpoints, 6, unasking)
	since := time.Now()
	var group sync.WaitGroup
	for _, node := range fleet.Nodes {
		group.Go(node.Kill)
	}
	group.Wait()
	for _, node := range fleet.Nodes {
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
	}
	awaitWhole(t, fleet)
	t.Logf("whole again after %.1f s, %d clients had to list", time.Since(since).Seconds(), l.relists())
	l.finish(t)
	lists := upstreamLists(t, since)
	for _, k := range kinds {
		if n := len(lists[k.plural]); n != 1 {
			t.Errorf("%s was listed %d times, want once: %v", k.plural, n, lists[k.plural])
		}
	}
}
