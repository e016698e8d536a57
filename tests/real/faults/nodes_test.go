package faults

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// deliveries are when watchers were given which revision.
type deliveries struct {
	mu  sync.Mutex
	all map[*watcher][]delivery
}

type delivery struct {
	rv    uint64
	shard int
	at    time.Time
}

func (d *deliveries) told(w *watcher, event client.Event) {
	if event.Type == "BOOKMARK" || w.slow {
		return
	}
	meta := event.Meta()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[*watcher][]delivery{}
	}
	d.all[w] = append(d.all[w], delivery{meta.RV(), shardOf(meta), event.At})
}

// latest is, for each watcher, how late the latest of its events came that were acknowledged in a time; shard is of which
// they are, or -1 for any.
func (d *deliveries) latest(l *load, shard int, from, to time.Time) []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	var worst []time.Duration
	for _, given := range d.all {
		late, any := time.Duration(0), false
		for _, one := range given {
			acked, known := l.ackedAt(one.rv)
			if known && acked.After(from) && acked.Before(to) && (shard < 0 || one.shard == shard) {
				late, any = max(late, one.at.Sub(acked)), true
			}
		}
		if any {
			worst = append(worst, late)
		}
	}
	slices.Sort(worst)
	return worst
}

// percentile of sorted values.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// TestKilledShardGap kills replicas of shards and measures how long the events of those shards are late: for each watcher
// and kill the latest one.
func TestKilledShardGap(t *testing.T) {
	const (
		kills     = 4
		after     = 2 * time.Second
		bound     = 3 * time.Second
		promised  = time.Second
		onlyAFew  = 20
		hundredth = 99
	)
	var given deliveries
	p := gentle
	p.told = given.told
	awaitWhole(t, fleet)
	l := startLoad(t, plane.Weir.Endpoints, 1, p)
	before := read(t.Context(), fleet)
	var gaps []time.Duration
	for i := range kills {
		node := fleet.Node(i%shards, i%replicas)
		killed := time.Now()
		node.Kill()
		wait.Pause(t.Context(), after)
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
		awaitWhole(t, fleet)
		gaps = append(gaps, given.latest(l, node.Shard, killed.Add(-promised), killed.Add(after))...)
	}
	lost := read(t.Context(), fleet).since(before, sessionsLost)
	l.finish(t)
	l.assertNoRelist(t)
	if len(gaps) < onlyAFew || lost < kills {
		t.Fatalf("%d gaps were measured and %v sessions lost: the kills hit nobody", len(gaps), lost)
	}
	slices.Sort(gaps)
	worst := percentile(gaps, hundredth)
	t.Logf("%d gaps after %d kills: median %s, p99 %s, longest %s", len(gaps), kills, percentile(gaps, 50), worst, gaps[len(gaps)-1])
	if worst > bound {
		t.Errorf("p99 of the delivery gap is %s, want %s, and at most %s here", worst, promised, bound)
	}
}

// TestDS04_HungReplicaIsLeft freezes each replica of a shard in turn. Delivery goes on while it is frozen, and what it says
// when it goes on is not taken for new.
func TestDS04_HungReplicaIsLeft(t *testing.T) {
	const (
		moment = 1500 * time.Millisecond // longer than what was on its way
		soon   = 5 * time.Second
	)
	awaitWhole(t, fleet)
	l := startLoad(t, plane.Weir.Endpoints, 2, gentle)
	before := read(t.Context(), fleet)
	for _, node := range fleet.Replicas(1) {
		if err := node.Pause(); err != nil {
			t.Fatal(err)
		}
		wait.Pause(t.Context(), moment)
		for _, w := range l.watchers {
			known := l.acknowledged(w.kind)
			if w.space != "" || w.selector != "" || w.slow {
				continue
			}
			err := wait.Within(soon, func() error {
				if s := w.snapshot(); s.At < known {
					return fmt.Errorf("it is at %d, short of %d", s.At, known)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s while %s is frozen: %v", w, node.Name, err)
			}
		}
		if err := node.Continue(); err != nil {
			t.Fatal(err)
		}
		l.assertFreshAtOnce(t)
		awaitWhole(t, fleet)
	}
	if by := read(t.Context(), fleet).since(before, failovers); by == 0 {
		t.Error("no fail-over was counted")
	}
	l.finish(t)
	l.assertNoRelist(t)
}

// assertFreshAtOnce asks every proxy for the newest state of each kind, now.
func (l *load) assertFreshAtOnce(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	for number, endpoint := range plane.Weir.Endpoints {
		c := client.New(endpoint, cluster.AdminToken, "faults-fresh/"+t.Name())
		defer c.Close()
		for _, k := range kinds {
			group.Go(func() {
				known := l.acknowledged(k)
				answer, err := c.Send(t.Context(), client.Request{Path: k.in("")})
				if err != nil {
					t.Errorf("proxy %d: %v", number, err)
					return
				}
				list, err := client.ParseList(answer.Body)
				if err != nil || list.RV() < known {
					t.Errorf("proxy %d: a list of %s at %d was asked for after a write at %d (%d, %v)", number, k.plural, list.RV(), known, answer.Status, err)
				}
			})
		}
	}
	group.Wait()
}

// TestLoadAloneCausesNoFailOver keeps every core busy with something else. A machine that is slow is no replica that hangs.
func TestLoadAloneCausesNoFailOver(t *testing.T) {
	const length = 20 * time.Second
	awaitWhole(t, fleet)
	l := startLoad(t, plane.Weir.Endpoints, 3, gentle)
	before := read(t.Context(), fleet)
	for range runtime.NumCPU() {
		spinner := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		if err := spinner.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = spinner.Process.Kill()
			_ = spinner.Wait()
		}()
	}
	wait.Pause(t.Context(), length)
	now := read(t.Context(), fleet)
	if grown := now.growth(before); len(grown) > 0 || len(now) < len(fleet.Members()) {
		t.Errorf("%d of %d processes answered; these counters grew under load alone: %v", len(now), len(fleet.Members()), grown)
	}
	l.finish(t)
	l.assertNoRelist(t)
}
