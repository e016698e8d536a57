package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
	"weir.dev/tests/real/wait"
)

// load is writers at upstream, watchers and listers at the proxies, and the truth.
type load struct {
	*world
	watchers []*watcher
	listers  []*lister
	truth    map[string]*record.Recorder // by plural

	upstream *client.Client
	writing  []*writing
	endWrite context.CancelFunc
	endRead  context.CancelFunc
	endLists context.CancelFunc
	writes   sync.WaitGroup
	reads    sync.WaitGroup
	failed   atomic.Pointer[error] // of a writer
}

// pace says how much a load does.
type pace struct {
	writesPerSecond int
	watchersOfEach  int // of each form, at each proxy in turn
	listers         int
	queries         []string                     // what listers ask for
	returns         bool                         // watchers go back to their own proxies
	told            func(*watcher, client.Event) // if set: called for each live event
}

var gentle = pace{writesPerSecond: 40, watchersOfEach: 1, listers: 4, queries: everyQuery}

// anyState are lists about whose freshness nobody has to ask upstream.
var anyState = []string{"resourceVersion=0"}

// everyQuery are all ways to list.
var everyQuery = []string{"limit=5", "resourceVersion=0", "", "limit=9"}

// patience is how long something may take that has to come, on a machine where everything runs at once.
const patience = 60 * time.Second

// startLoad returns when every watcher has its state and every object was written once.
func startLoad(t *testing.T, endpoints []client.Endpoint, seed uint64, p pace) *load {
	t.Helper()
	upstream := plane.Upstream(cluster.AdminToken, "faults-direct/"+t.Name())
	t.Cleanup(upstream.Close)
	l := &load{world: newWorld(t, upstream), truth: map[string]*record.Recorder{}, upstream: upstream}
	for _, k := range kinds {
		l.truth[k.plural] = record.Start(t, upstream, k.in(""))
	}
	for number := range writers {
		w := l.writer(number, seed)
		if err := w.everything(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.writing = append(l.writing, w)
	}
	l.startReaders(t, endpoints, p)
	l.startWriters(t, p)
	t.Cleanup(l.stop)
	return l
}

func (l *load) startReaders(t *testing.T, endpoints []client.Endpoint, p pace) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l.endRead = cancel
	for range p.watchersOfEach {
		for _, f := range l.forms() {
			w := f.watcher(len(l.watchers), len(l.watchers)%len(endpoints), endpoints, l.truth[f.kind.plural].History)
			w.returns = p.returns
			if p.told != nil {
				w.told = func(event client.Event) { p.told(w, event) }
			}
			l.watchers = append(l.watchers, w)
			l.reads.Go(func() { w.run(ctx) })
		}
	}
	lists, cancel := context.WithCancel(ctx)
	l.endLists = cancel
	for i := range p.listers {
		f := l.forms()[i*5%len(l.forms())]
		one := f.lister(i, endpoints, l.world, l.truth[f.kind.plural].History)
		one.queries = p.queries
		l.listers = append(l.listers, one)
		l.reads.Go(func() { one.run(lists) })
	}
	l.reads.Go(func() { l.keepJudging(ctx) })
	for _, w := range l.watchers {
		wait.Eventually(t, w.String()+" has begun", patience, func() error {
			if s := w.snapshot(); s.At == 0 || s.Streams == 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
}

// keepJudging judges while the load runs, and forgets what nobody can be given any more.
func (l *load) keepJudging(ctx context.Context) {
	const kept = 2 * time.Minute // longer than any list takes
	type mark struct {
		at time.Time
		rv uint64
	}
	var marks []mark
	for ctx.Err() == nil {
		wait.Pause(ctx, time.Second)
		oldest := ^uint64(0)
		for _, w := range l.watchers {
			w.judge()
			w.mu.Lock()
			oldest = min(oldest, w.position)
			w.mu.Unlock()
		}
		marks = append(marks, mark{time.Now(), oldest})
		if time.Since(marks[0].at) < kept {
			continue
		}
		for _, truth := range l.truth {
			truth.Forget(marks[0].rv)
		}
		marks = marks[1:]
	}
}

func (l *load) startWriters(t *testing.T, p pace) {
	ctx, cancel := context.WithCancel(context.Background())
	l.endWrite = cancel
	for _, w := range l.writing {
		l.writes.Go(func() {
			ticker := time.NewTicker(time.Second * writers / time.Duration(p.writesPerSecond))
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
				case <-ctx.Done():
					return
				}
				if err := w.write(context.WithoutCancel(ctx)); err != nil {
					l.failed.Store(&err)
					return
				}
			}
		})
	}
}

func (l *load) stop() {
	l.endWrite()
	l.writes.Wait()
	l.endRead()
	l.reads.Wait()
}

// finish ends the writing, waits until every watcher has all of it, and reports every broken rule.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.endLists() // a list may be ahead of what is known; what is written below moves the truth past it
	l.endWrite()
	l.writes.Wait()
	if err := l.failed.Load(); err != nil {
		t.Fatalf("a writer failed: %v", *err)
	}
	for _, w := range l.writing {
		if err := w.everything(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range kinds {
		if err := l.truth[k.plural].Await(l.acknowledged(k), patience); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range l.watchers {
		end := l.acknowledged(w.kind)
		wait.Eventually(t, w.String()+" is at the writers' end", patience, func() error {
			if owed := w.owed(end); owed > 0 {
				return fmt.Errorf("%d events are missing: %+v", owed, w.snapshot())
			}
			return nil
		})
	}
	l.stop()
	l.report(t)
}

// report judges what is left and says all that was wrong.
func (l *load) report(t *testing.T) {
	t.Helper()
	delivered, streams := 0, 0
	for _, w := range l.watchers {
		w.judge()
		for _, fault := range w.complaints() {
			t.Errorf("%s: %s", w, fault)
		}
		s := w.snapshot()
		delivered, streams = delivered+s.Delivered, streams+s.Streams
	}
	for _, one := range l.listers {
		for _, fault := range one.faults {
			t.Errorf("lists of %s of %s: %s", one.name, one.kind.plural, fault)
		}
		t.Logf("lists of %s of %s: %+v", one.name, one.kind.plural, one.tally)
	}
	t.Logf("%d writes, %d events delivered to %d watchers over %d streams", l.count, delivered, len(l.watchers), streams)
	l.assertAcknowledged(t)
}

// assertAcknowledged demands that the truth has every write that upstream acknowledged, as far as it still remembers.
func (l *load) assertAcknowledged(t *testing.T) {
	t.Helper()
	told := map[uint64]bool{}
	remembered := uint64(0)
	for _, truth := range l.truth {
		from, _ := truth.Bounds()
		remembered = max(remembered, from)
		for _, change := range truth.Changes(0, ^uint64(0)) {
			told[change.RV] = true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for rv := range l.acks {
		if rv > remembered && !told[rv] {
			t.Errorf("upstream acknowledged a write at %d and never told of it", rv)
		}
	}
}

// delivered is how many events watchers were given.
func (l *load) delivered() int {
	sum := 0
	for _, w := range l.watchers {
		sum += w.snapshot().Delivered
	}
	return sum
}

// relists is how often clients were told to list again.
func (l *load) relists() int {
	sum := 0
	for _, w := range l.watchers {
		sum += w.snapshot().Relists
	}
	return sum
}

// assertNoRelist demands that no client had to list again.
func (l *load) assertNoRelist(t *testing.T) {
	t.Helper()
	for _, w := range l.watchers {
		if s := w.snapshot(); s.Relists > 0 {
			t.Errorf("%s: had to list again %d times, at last: %v", w, s.Relists, s.Latest)
		}
	}
}

// at are the watchers whose stream is at a proxy.
func (l *load) at(proxy int) []*watcher {
	var all []*watcher
	for _, w := range l.watchers {
		if w.snapshot().Proxy == proxy {
			all = append(all, w)
		}
	}
	return all
}

// brokenStreams counts the streams of watchers that broke so far.
func brokenStreams(watchers []*watcher) int {
	sum := 0
	for _, w := range watchers {
		sum += w.snapshot().Broken
	}
	return sum
}

// leastQuiet is how long none of a proxy's watchers was given anything.
func (l *load) leastQuiet(proxy int) time.Duration {
	least := time.Hour
	for _, w := range l.at(proxy) {
		if !w.slow { // that one reads what came long before
			least = min(least, w.quiet())
		}
	}
	return least
}
