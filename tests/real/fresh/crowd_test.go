package fresh

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/client"
)

// crowd are other clients that write to a kind, at an even rate, into a namespace of their own.
type crowd struct {
	kind   kind
	space  string
	cancel context.CancelFunc
	done   sync.WaitGroup
	began  time.Time

	mu     sync.Mutex
	writes int
	failed error
}

const (
	crowdRate    = 100 // writes a second
	leastBusy    = crowdRate / 2
	crowdWriters = 6
	crowdNames   = 5 // of each writer
)

// gather starts a crowd, which goes home with the test.
func gather(t testing.TB, k kind) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowd{kind: k, space: namespace(t, "crowd"), cancel: cancel, began: time.Now()}
	turns := make(chan int)
	c.done.Go(func() {
		defer close(turns)
		tick := time.NewTicker(time.Second / crowdRate)
		defer tick.Stop()
		for turn := 0; ; turn++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			turns <- turn
		}
	})
	for writer := range crowdWriters {
		upstream := direct(t)
		c.done.Go(func() {
			for turn := range turns {
				c.write(ctx, upstream, fmt.Sprintf("c-%d-%d", writer, turn%crowdNames), turn)
			}
		})
	}
	t.Cleanup(func() { c.leave(t) })
	return c
}

// write changes an object, or makes it where it is not there yet.
func (c *crowd) write(ctx context.Context, upstream *client.Client, name string, turn int) {
	object := c.kind.object(name, turn)
	path := c.kind.in(c.space)
	content := http.Header{"Content-Type": {"application/merge-patch+json"}}
	answer, err := upstream.Send(ctx, client.Request{Method: http.MethodPatch, Path: path + "/" + name, Header: content, Body: object})
	if err == nil && answer.Status == http.StatusNotFound {
		_, err = upstream.Write(ctx, http.MethodPost, path, object)
	} else if err == nil && answer.Status >= http.StatusMultipleChoices {
		err = fmt.Errorf("patch %s: %d %s", name, answer.Status, client.Excerpt(answer.Body))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.writes++
	} else if ctx.Err() == nil {
		c.failed = err
	}
}

// rate is how much was written a second so far.
func (c *crowd) rate() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(c.writes) / time.Since(c.began).Seconds()
}

// assertBusy demands that the kind was as busy as a test needs it.
func (c *crowd) assertBusy(t testing.TB) {
	t.Helper()
	rate := c.rate()
	t.Logf("%s: %.0f writes/s by others", c.kind.plural, rate)
	if rate < leastBusy {
		t.Errorf("%s saw %.0f writes/s, and must see %d to be busy", c.kind.plural, rate, leastBusy)
	}
}

// leave ends the writing.
func (c *crowd) leave(t testing.TB) {
	c.cancel()
	c.done.Wait()
	if c.failed != nil {
		t.Errorf("a write of the crowd: %v", c.failed)
	}
}
