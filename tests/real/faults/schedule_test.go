package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"weir.dev/tests/real/modes"
	"weir.dev/tests/real/wait"
)

// schedule is which faults come, one after the other: never two at once, so that a copy always covers the gap.
func schedule(random *rand.Rand, n int) []injection {
	var deck, all []injection
	for len(all) < n {
		if len(deck) == 0 {
			for _, one := range injections {
				for range one.weight {
					deck = append(deck, one)
				}
			}
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		all, deck = append(all, deck[0]), deck[1:]
	}
	return all
}

// manyEvents are delivered in the long mode: a loss that is rarer than a fault shows only among many.
const manyEvents = 10_000_000

// number reads a setting of the environment.
func number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// TestRF03_FaultsCostNoClientAnything injects one fault after the other while there are writes, and demands that nobody
// lost, repeated or mixed anything, and that no watcher had to list again. WEIR_SEED repeats a schedule, WEIR_FAULTS says
// how long it is.
func TestRF03_FaultsCostNoClientAnything(t *testing.T) {
	seed := number(t, "WEIR_SEED", uint64(time.Now().UnixNano()))
	ordinary, p := uint64(50), gentle
	p.returns = true
	if modes.IsLong() {
		ordinary, p.writesPerSecond, p.watchersOfEach = 1000, 100, 9
	}
	n := int(number(t, "WEIR_FAULTS", ordinary))
	t.Logf("seed %d, %d faults", seed, n)
	random := rand.New(rand.NewPCG(seed, 0))
	awaitWhole(t, fleet)
	l := startLoad(t, plane.Weir.Endpoints, seed, p)
	missed := 0
	for i, one := range schedule(random, n) {
		relists := l.relists()
		began := time.Now()
		in := &incident{t.Context(), l, random, read(t.Context(), fleet)}
		what, err := one.inject(in)
		if errors.Is(err, errMissed) {
			missed++
			t.Logf("fault %d, %s (%s): %v", i, one.name, what, err)
		} else if err != nil {
			t.Fatalf("fault %d, %s (%s): %v", i, one.name, what, err)
		}
		struck := time.Since(began)
		wait.Eventually(t, fmt.Sprintf("the fleet is whole after fault %d, %s (%s)", i, one.name, what), settle, func() error {
			return whole(t.Context(), fleet)
		})
		t.Logf("fault %d, %s (%s): struck for %.1f s, healed in %.1f s, %v", i, one.name, what, struck.Seconds(),
			time.Since(began).Seconds()-struck.Seconds(), read(t.Context(), fleet).growth(in.before))
		if after := l.relists(); after > relists {
			t.Errorf("fault %d, %s (%s): %d clients were told to list again", i, one.name, what, after-relists)
		}
	}
	if modes.IsLong() && n >= 1000 {
		wait.Eventually(t, "so many events are delivered", time.Hour, func() error {
			if count := l.delivered(); count < manyEvents {
				return fmt.Errorf("%d of %d", count, manyEvents)
			}
			return nil
		})
	}
	l.finish(t)
	l.assertNoRelist(t)
	if missed*10 > n {
		t.Errorf("%d of %d faults were not seen to have hit", missed, n)
	}
}
