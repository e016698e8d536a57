package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errEarly = errors.New("too early")

// from succeeds once a length has passed.
func from(length time.Duration) func() error {
	due := time.Now().Add(length)
	return func() error {
		if time.Now().Before(due) {
			return errEarly
		}
		return nil
	}
}

func TestWithinSucceedsUpToItsLimitAndGivesTheLastFailureAfterIt(t *testing.T) {
	const limit = time.Second
	synctest.Test(t, func(t *testing.T) {
		if err := Within(limit, from(limit)); err != nil {
			t.Errorf("what succeeds at the limit fails with %v", err)
		}
		began := time.Now()
		if err := Within(limit, from(2*limit)); !errors.Is(err, errEarly) {
			t.Errorf("what comes too late ends with %v", err)
		}
		if took := time.Since(began); took < limit || took > limit+between {
			t.Errorf("it is given up after %s, the limit is %s", took, limit)
		}
	})
}

func TestPauseLastsItsLengthOrEndsWithTheContext(t *testing.T) {
	const length = time.Minute
	synctest.Test(t, func(t *testing.T) {
		for _, life := range []time.Duration{length / 2, 2 * length} {
			ctx, cancel := context.WithTimeout(t.Context(), life)
			began := time.Now()
			Pause(ctx, length)
			cancel()
			if took := time.Since(began); took != min(life, length) {
				t.Errorf("a pause of %s took %s while the context lived for %s", length, took, life)
			}
		}
	})
}
