package suite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/modes"
)

const (
	writesPerSecond = 200
	writers         = 12
	namesPerWriter  = 8 // each writer has names of its own, so it knows which of its objects exist
	slowestRate     = writesPerSecond / 2
	slowestByParts  = writesPerSecond / 4 // ten processes of weir share the cores with the writers
)

// churn writes into the namespaces of a wave: both kinds, creations, changes, deletions, at an even rate.
type churn struct {
	wave   *wave
	seed   uint64
	writes atomic.Int64
}

func newChurn(t testing.TB, w *wave) *churn {
	c := &churn{wave: w, seed: uint64(time.Now().UnixNano())}
	t.Logf("seed %d", c.seed)
	return c
}

// length is how long the writing goes on.
func (c *churn) length() time.Duration {
	if modes.IsLong() {
		return 3 * time.Minute
	}
	return 20 * time.Second
}

func (c *churn) labels(round int64) string {
	return fmt.Sprintf(`"wave":%q,"round":"r%d"`, c.wave.label, round)
}

// prepare makes an object of each kind in each namespace and returns the revisions that a mirror must have reached.
func (c *churn) prepare(t testing.TB, upstream *client.Client) map[kind]uint64 {
	t.Helper()
	return c.everywhere(t, upstream, "first")
}

// run writes until the time is over and returns the rate that was reached.
func (c *churn) run(t testing.TB, upstream *client.Client) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.length())
	defer cancel()
	turns := make(chan int64)
	go func() {
		defer close(turns)
		ticker := time.NewTicker(time.Second / writesPerSecond)
		defer ticker.Stop()
		for round := int64(1); ; round++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			turns <- round
		}
	}()
	began := time.Now()
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			own := writing{churn: c, upstream: upstream, random: rand.New(rand.NewPCG(c.seed, uint64(writer))), exists: map[string]bool{}}
			for round := range turns {
				if err := own.write(t.Context(), writer, round); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	return float64(c.writes.Load()) / time.Since(began).Seconds()
}

// writing is what one writer knows.
type writing struct {
	*churn
	upstream *client.Client
	random   *rand.Rand
	exists   map[string]bool // by path
}

// write creates what doesn't exist; what exists is changed four times out of five, else deleted.
func (w writing) write(ctx context.Context, writer int, round int64) error {
	k := bothKinds[w.random.IntN(len(bothKinds))]
	collection := k.in(w.wave.spaces[w.random.IntN(len(w.wave.spaces))])
	name := fmt.Sprintf("c-%d-%d", writer, w.random.IntN(namesPerWriter))
	path := collection + "/" + name
	object := k.object(name, w.labels(round))
	var err error
	switch {
	case !w.exists[path]:
		_, err = w.upstream.Write(ctx, http.MethodPost, collection, object)
		w.exists[path] = true
	case w.random.IntN(5) == 0:
		_, err = w.upstream.Write(ctx, http.MethodDelete, path, nil)
		w.exists[path] = false
	default:
		_, err = w.upstream.Write(ctx, http.MethodPatch, path, object)
	}
	w.writes.Add(1)
	return err
}

// finish writes one last object of each kind into every namespace and returns the revisions at which a kind is done.
func (c *churn) finish(t testing.TB, upstream *client.Client) map[kind]uint64 {
	t.Helper()
	return c.everywhere(t, upstream, "last")
}

func (c *churn) everywhere(t testing.TB, upstream *client.Client, name string) map[kind]uint64 {
	t.Helper()
	last := map[kind]uint64{}
	for _, k := range bothKinds {
		for _, space := range c.wave.spaces {
			last[k] = write(t, upstream, http.MethodPost, k.in(space), k.object(name, c.labels(0)))
		}
	}
	return last
}
