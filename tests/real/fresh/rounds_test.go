package fresh

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/modes"
)

// rounds writes and asks, again and again: one write at upstream, and as soon as it is acknowledged readings at all places
// where weir is reached, at once.
type rounds struct {
	lane     *lane
	number   int
	readings []reading
	atOnce   int // readings at each place
	clients  []*client.Client

	mu     sync.Mutex
	faults []string
	asked  int
	by     map[string]int
}

func newRounds(t testing.TB, l *lane, number int, all []reading) *rounds {
	r := &rounds{lane: l, number: number, readings: all, atOnce: min(4, len(all)), by: map[string]int{}}
	for _, endpoint := range endpoints() {
		r.clients = append(r.clients, caller(t, endpoint, "reader"))
	}
	return r
}

// run makes all rounds.
func (r *rounds) run(t testing.TB) {
	t.Helper()
	began := time.Now()
	for round := range r.number {
		if err := r.lane.step(t.Context()); err != nil {
			t.Error(err)
			return
		}
		var group sync.WaitGroup
		for place, c := range r.clients {
			for i := range r.atOnce {
				group.Go(func() { r.ask(t, c, r.readings[(round+place+i)%len(r.readings)], round) })
			}
		}
		group.Wait()
	}
	t.Logf("%s: %d answers in %d rounds, %.1f s, %d faults; by %v", r.lane.kind.plural, r.asked, r.number,
		time.Since(began).Seconds(), len(r.faults), r.by)
}

func (r *rounds) ask(t testing.TB, c *client.Client, how reading, round int) {
	got, err := how.read(t.Context(), c, r.lane)
	if err == nil {
		err = r.lane.judge(got, how.want(r.lane))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	r.by[got.by]++
	if err != nil {
		r.faults = append(r.faults, fmt.Sprintf("%s, round %d, %s, by %q: %v", r.lane.kind.plural, round, how.name, got.by, err))
	}
}

// assertFresh demands that no answer was wrong.
func (r *rounds) assertFresh(t testing.TB) {
	t.Helper()
	const most = 5
	for _, fault := range r.faults[:min(most, len(r.faults))] {
		t.Error(fault)
	}
	if len(r.faults) > most {
		t.Errorf("and %d more", len(r.faults)-most)
	}
}

// length is how many rounds a test makes that has n in an ordinary run.
func length(n int) int {
	if modes.IsLong() {
		return 10 * n
	}
	return n
}

// lanes makes a lane of each kind, mirrored and fed from instance A.
func lanes(t testing.TB, seed uint64, kinds ...kind) []*lane {
	t.Helper()
	t.Logf("seed %d", seed)
	var all []*lane
	for i, k := range kinds {
		l := newLane(t, k, rand.New(rand.NewPCG(seed, uint64(i+1))))
		all = append(all, l)
		mirrorEverywhere(t, k, 0)
	}
	if !modes.IsPlain() {
		feedFromA(t, kinds...)
	}
	return all
}

// runAll makes the rounds of several lanes side by side.
func runAll(t testing.TB, all []*rounds) {
	var group sync.WaitGroup
	for _, r := range all {
		group.Go(func() { r.run(t) })
	}
	group.Wait()
	for _, r := range all {
		r.assertFresh(t)
	}
}

// assertAskedOfA demands that the feeds did read from the instance that was late. Their questions come from where they read.
func assertAskedOfA(t testing.TB, since time.Time, kinds ...kind) {
	t.Helper()
	for _, k := range kinds {
		asked := map[string]int{}
		for _, s := range of(spans(t, audit.Filter{Since: since, Resource: k.plural}), audit.Feed) {
			asked[s.Instance]++
		}
		t.Logf("%s: asked by feeds: %v", k.plural, asked)
		if asked[plane.A.Name] <= asked[plane.B.Name] {
			t.Errorf("%s: the instance that was late was not the one that was read from: %v", k.plural, asked)
		}
	}
}

func newSeed() uint64 { return uint64(time.Now().UnixNano()) }

// TestCS01_BW03_AnswersHoldWhatWasAcknowledged writes to a busy kind and to two quiet ones while the instance behind the
// feeds lags.
func TestCS01_BW03_AnswersHoldWhatWasAcknowledged(t *testing.T) {
	if !modes.IsLong() { // the longer one would not be over when connections are cut for the quiet kind
		t.Parallel()
	}
	const quietRounds, busyRounds = 100, 200 // the quiet ones on each of two kinds
	seed := newSeed()
	all := lanes(t, seed, configMaps, serviceAccounts, gauges)
	since := time.Now()
	others := gather(t, gauges)
	under(t, lagging, seed, func() {
		runAll(t, []*rounds{
			newRounds(t, all[0], length(quietRounds), readings),
			newRounds(t, all[1], length(quietRounds), readings),
			newRounds(t, all[2], length(busyRounds), readings),
		})
	})
	others.assertBusy(t)
	if !modes.IsPlain() {
		assertAskedOfA(t, since, configMaps, serviceAccounts, gauges)
	}
}

// TestCS01_AnswersAreFreshWhateverIsBehindTheAddress does the same for a while with connections that are moved from one
// instance to the other, and with an instance that stands still half of the time.
func TestCS01_AnswersAreFreshWhateverIsBehindTheAddress(t *testing.T) {
	for name, w := range map[string]weather{"balanced": balanced, "frozen": frozen} {
		t.Run(name, func(t *testing.T) {
			const few = 40
			seed := newSeed()
			all := lanes(t, seed, configMaps, gauges)
			gather(t, gauges)
			under(t, w, seed, func() {
				runAll(t, []*rounds{newRounds(t, all[0], length(few), readings), newRounds(t, all[1], length(few), readings)})
			})
		})
	}
}

// TestStaleAnswersAreNoticed asks for what may be stale, and must find that it is: else the other tests prove nothing.
func TestStaleAnswersAreNoticed(t *testing.T) {
	judgesWeirItself(t)
	all := lanes(t, newSeed(), configMaps)
	plane.A.Store.Delay(mostLag)
	defer plane.A.Store.Delay(0)
	const few = 10
	r := newRounds(t, all[0], few, staleReadings)
	r.run(t)
	if len(r.faults) == 0 {
		t.Errorf("of %d answers at any revision, behind an instance that is late, none was stale", r.asked)
	}
	if places := slices.Collect(maps.Keys(r.by)); !slices.Equal(places, []string{"mirror"}) {
		t.Errorf("answered by %v, want the mirror alone", places)
	}
}
