// Package wait is how tests let time go by: until something has succeeded, with a limit after which it has failed, or for a
// length that is itself what is tested. An attempt that is under way is never cut off, so it needs a limit of its own; the
// one that begins last may end after the limit, and then still counts.
package wait

import (
	"context"
	"testing"
	"time"
)

// between attempts there is at least this; one that takes longer is followed by the next.
const between = 20 * time.Millisecond

// Eventually repeats an attempt until it succeeds or the limit has passed, which ends the test.
func Eventually(t testing.TB, what string, limit time.Duration, attempt func() error) {
	t.Helper()
	if err := Within(limit, attempt); err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, err)
	}
}

// Within is Eventually for those who go on: it gives the last failure.
func Within(limit time.Duration, attempt func() error) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		err := attempt()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// Pause is the time that something is left as it is; it ends early with the context.
func Pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
