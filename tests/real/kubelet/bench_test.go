package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// A measurement asks the same in turns, alone and beside a load, so that what the machine does otherwise hits both alike.
const (
	turns    = 6
	turnTime = 4 * time.Second
	pause    = 5 * time.Millisecond // between two requests of the one whose times are taken
)

// beside measures requests alone and beside a load, which begin starts and the function that it returns ends.
func beside(b *testing.B, begin func() func(), ask func(number int) error) {
	b.Helper()
	var alone, loaded []time.Duration
	number := 0
	for turn := range turns {
		times := &alone
		end := func() {}
		if turn%2 == 1 {
			times, end = &loaded, begin()
		}
		for deadline := time.Now().Add(turnTime); time.Now().Before(deadline); number++ {
			began := time.Now()
			if err := ask(number); err != nil {
				b.Fatal(err)
			}
			*times = append(*times, time.Since(began))
			time.Sleep(pause)
		}
		end()
	}
	for _, share := range []float64{0.5, 0.99} {
		one, other := quantile(alone, share), quantile(loaded, share)
		b.ReportMetric(float64(one.Microseconds())/1000, fmt.Sprintf("ms-p%g-alone", 100*share))
		b.ReportMetric(float64(other.Microseconds())/1000, fmt.Sprintf("ms-p%g-beside", 100*share))
	}
	b.ReportMetric(100*(float64(quantile(loaded, 0.99))/float64(quantile(alone, 0.99))-1), "%-more-at-p99")
	b.ReportMetric(float64(len(alone)+len(loaded)), "requests")
	b.ReportMetric(0, "ns/op") // it is the whole measurement's
}

func quantile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, int(share*float64(len(times))))]
}

// BenchmarkCreatesBesideStalledReaders is about 100 readers of logs that stop reading.
func BenchmarkCreatesBesideStalledReaders(b *testing.B) {
	name, path := pod(b)
	log := backend.Log(space, name)
	log.Flood([]byte(strings.Repeat("a line that nobody reads\n", 2_000)))
	begin := func() func() {
		var ends []func()
		for range 100 {
			ends = append(ends, stall(b, path+"/log?follow=true"))
		}
		time.Sleep(time.Second) // until all that takes bytes is full
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}
	c := caller(b)
	beside(b, begin, func(number int) error {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bench-%s-%d"}}`, name, number)
		_, err := c.Write(b.Context(), http.MethodPost, "/api/v1/namespaces/"+space+"/configmaps", body)
		return err
	})
}

// BenchmarkOthersBesideANoisyIdentity is about one identity that lists everything on many connections, opens watches of an
// expired revision, and reads nothing of others.
func BenchmarkOthersBesideANoisyIdentity(b *testing.B) {
	fillConfigMaps(b, 3_000)
	const all = "/api/v1/configmaps"
	begin := func() func() {
		ctx, cancel := context.WithCancel(b.Context())
		var noise sync.WaitGroup
		for i := range 64 {
			c := caller(b)
			path := all + "?resourceVersion=0"
			if i%4 == 0 {
				path = all + "?watch=1&resourceVersion=1"
			}
			noise.Go(func() {
				for ctx.Err() == nil {
					_, _ = c.Send(ctx, client.Request{Path: path}) // a refusal is as good
				}
			})
		}
		return func() {
			cancel()
			noise.Wait()
		}
	}
	other := client.New(plane.Weir.Endpoint(0), cluster.ReaderToken, "kubelet-suite-other")
	b.Cleanup(other.Close)
	beside(b, begin, func(int) error {
		answer, err := other.Send(b.Context(), client.Request{Path: "/api/v1/namespaces/lock/configmaps?resourceVersion=0"})
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%d %s", answer.Status, client.Excerpt(answer.Body))
		}
		return err
	})
}

// fillConfigMaps makes so many of 1 KiB.
func fillConfigMaps(b *testing.B, count int) {
	b.Helper()
	admin := direct(b)
	numbers := make(chan int)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for number := range numbers {
				body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"fill-%d"},"data":{"a":%q}}`, number, strings.Repeat("x", 1<<10))
				if _, err := admin.Write(b.Context(), http.MethodPost, "/api/v1/namespaces/"+space+"/configmaps", body); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	writers.Wait()
}
