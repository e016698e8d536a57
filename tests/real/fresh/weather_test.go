package fresh

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/modes"
	"weir.dev/tests/real/wait"
)

// weather is what goes wrong with the apiserver that the feeds read from, again and again until the context ends.
type weather func(ctx context.Context, t testing.TB, random *rand.Rand)

// The bounds of how late an instance is in each direction from etcd, and of how long it stands still. A question about a
// quiet kind takes four such ways and upstream's own 100 ms, and two of them must be answered before weir passes on.
const (
	leastLag, mostLag   = 2 * time.Millisecond, 20 * time.Millisecond
	leastStop, mostStop = 50 * time.Millisecond, 300 * time.Millisecond
)

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

// lagging makes instance A late by another time every half second, and every fourth time lets it stand still.
func lagging(ctx context.Context, t testing.TB, random *rand.Rand) {
	defer plane.A.Store.Delay(0)
	for turn := 0; ctx.Err() == nil; turn++ {
		plane.A.Store.Delay(between(random, leastLag, mostLag))
		wait.Pause(ctx, 500*time.Millisecond)
		if turn%4 == 3 {
			standStill(ctx, t, random)
		}
	}
}

// frozen lets instance A stand still about half of the time.
func frozen(ctx context.Context, t testing.TB, random *rand.Rand) {
	for ctx.Err() == nil {
		standStill(ctx, t, random)
		wait.Pause(ctx, between(random, leastStop, mostStop))
	}
}

func standStill(ctx context.Context, t testing.TB, random *rand.Rand) {
	if err := plane.A.Process().Stop(); err != nil {
		t.Error(err)
	}
	wait.Pause(ctx, between(random, leastStop, mostStop))
	if err := plane.A.Process().Continue(); err != nil {
		t.Error(err)
	}
}

// balanced is a load balancer: one address, behind which each new connection comes to the other instance, and connections
// are cut now and then. One of the instances is late.
func balanced(ctx context.Context, t testing.TB, random *rand.Rand) {
	plane.A.Store.Delay(mostLag)
	plane.B.Relay.Refuse(true)
	plane.B.Relay.Cut()
	defer func() {
		plane.A.Store.Delay(0)
		plane.B.Relay.Refuse(false)
		plane.A.Relay.Pin(plane.A.Address())
		plane.A.Relay.Cut()
	}()
	cut := 0
	for turn := 0; ctx.Err() == nil; turn++ {
		target := plane.A
		if turn%2 == 0 {
			target = plane.B
		}
		plane.A.Relay.Pin(target.Address())
		cut += plane.A.Relay.Cut()
		wait.Pause(ctx, between(random, 300*time.Millisecond, time.Second))
	}
	if cut == 0 && !modes.IsPlain() {
		t.Error("not one connection was moved")
	}
}

// under runs something in a weather.
func under(t testing.TB, w weather, seed uint64, work func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	if w != nil {
		group.Go(func() { w(ctx, t, rand.New(rand.NewPCG(seed, 0))) })
	}
	defer group.Wait()
	defer cancel()
	work()
}
