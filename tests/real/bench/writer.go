package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

const (
	writesPerSecond = 100
	writers         = 8
)

// written numbers all writes of a run. A label that an object has already would be no change at all, so no number comes twice.
var written atomic.Int64

// writer changes one object after the other at an even rate, so that upstream's revision never stands still.
type writer struct {
	stop   context.CancelFunc
	group  sync.WaitGroup
	began  time.Time
	writes atomic.Int64
	failed atomic.Int64
}

// write begins to write; end ends it.
func (p *plane) write(ctx context.Context, k kind) *writer {
	ctx, stop := context.WithCancel(ctx)
	w := &writer{stop: stop, began: time.Now()}
	paths := p.stock[k.plural]
	admin := client.New(p.A.Direct(), cluster.AdminToken, "weir-bench/writer")
	turns := make(chan int)
	w.group.Go(func() {
		defer close(turns)
		ticker := time.NewTicker(time.Second / writesPerSecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			select {
			case turns <- n:
			case <-ctx.Done():
				return
			}
		}
	})
	for range writers {
		w.group.Go(func() {
			for n := range turns {
				body := fmt.Appendf(nil, `{"metadata":{"labels":{"turn":"t%d"}}}`, written.Add(1))
				_, err := admin.Write(ctx, http.MethodPatch, paths[n%len(paths)], body)
				switch {
				case err == nil:
					w.writes.Add(1)
				case ctx.Err() == nil:
					w.failed.Add(1)
				}
			}
		})
	}
	return w
}

// end ends the writing and returns the rate that was reached.
func (w *writer) end() (float64, error) {
	w.stop()
	w.group.Wait()
	if failed := w.failed.Load(); failed > 0 {
		return 0, fmt.Errorf("%d writes failed", failed)
	}
	return float64(w.writes.Load()) / time.Since(w.began).Seconds(), nil
}
