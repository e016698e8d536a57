package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// The names under which weir counts what a fault causes.
const (
	failovers    = "weir_failovers_total"
	sessionsLost = "weir_sessions_lost_total"
	sessionsUp   = "weir_sessions_up"
	holes        = "weir_holes"
	feedLost     = "weir_feed_lost_total"
	warmStarts   = "weir_warm_starts_total"
)

// life is one life of one member: counters begin again with the next.
type life struct {
	member string
	pid    int
}

// reading is the metrics of every member that answered at one time.
type reading map[life]cluster.Metrics

// read asks all members at once. One that is down or frozen is left out.
func read(ctx context.Context, f *cluster.Fleet) reading {
	var mu sync.Mutex
	var group sync.WaitGroup
	r := reading{}
	for _, member := range f.Members() {
		group.Go(func() {
			id := life{member.Name, member.Process().PID()}
			metrics, err := member.Metrics(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			r[id] = metrics
		})
	}
	group.Wait()
	return r
}

// since is how much a counter grew over all members; a new life counts from nothing.
func (r reading) since(before reading, name string) float64 {
	sum := 0.0
	for id, metrics := range r {
		sum += metrics.Sum(name) - before[id].Sum(name)
	}
	return sum
}

// growth are all counters of faults that grew.
func (r reading) growth(before reading) map[string]float64 {
	grown := map[string]float64{}
	for _, name := range []string{failovers, sessionsLost, feedLost, warmStarts} {
		if by := r.since(before, name); by > 0 {
			grown[name] = by
		}
	}
	return grown
}

// counted is the evidence that one of the counters grew.
func counted(f *cluster.Fleet, before reading, names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		now := read(ctx, f)
		for _, name := range names {
			if now.since(before, name) > 0 {
				return nil
			}
		}
		return fmt.Errorf("none of %v grew", names)
	}
}

// whole says whether every proxy has a session with every node, and no shard is without one.
func whole(ctx context.Context, f *cluster.Fleet) error {
	for _, member := range f.Members() {
		if err := member.Ready(ctx); err != nil {
			return err
		}
	}
	for _, proxy := range f.Proxies {
		metrics, err := proxy.Metrics(ctx)
		if err != nil {
			return err
		}
		for _, name := range []string{sessionsUp, holes} {
			if !metrics.Has(name) {
				return fmt.Errorf("%s has no metric %s", proxy.Name, name)
			}
		}
		if up := int(metrics.Sum(sessionsUp)); up != len(f.Nodes) {
			return fmt.Errorf("%s has %d sessions of %d", proxy.Name, up, len(f.Nodes))
		}
		if n := metrics.Sum(holes); n > 0 {
			return fmt.Errorf("%s sees %v holes", proxy.Name, n)
		}
	}
	return nil
}

// awaitWhole waits until a fleet has recovered from whatever it was.
func awaitWhole(t testing.TB, f *cluster.Fleet) {
	t.Helper()
	wait.Eventually(t, "the fleet is whole", patience, func() error { return whole(t.Context(), f) })
}
