package main

import (
	"testing"
	"time"
)

func milliseconds(values ...int) []time.Duration {
	var all []time.Duration
	for _, v := range values {
		all = append(all, time.Duration(v)*time.Millisecond)
	}
	return all
}

func TestQuantilesAreValuesThatWereMeasured(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for n := range hundred {
		hundred[n] = time.Duration(100-n) * time.Millisecond
	}
	for _, c := range []struct {
		values []time.Duration
		share  float64
		want   time.Duration
	}{
		{nil, median, 0},
		{milliseconds(7), tail, 7 * time.Millisecond},
		{milliseconds(3, 1, 2), median, 2 * time.Millisecond},
		{milliseconds(4, 1, 3, 2), median, 2 * time.Millisecond},
		{hundred, tail, 99 * time.Millisecond},
		{hundred, 1, 100 * time.Millisecond},
	} {
		if got := quantile(c.values, c.share); got != c.want {
			t.Errorf("%v of %v is %s, want %s", c.share, c.values, got, c.want)
		}
	}
}

func TestSharesBeginWithTheMostFrequent(t *testing.T) {
	got := shares(map[string]int{"revision": 1, "comparison": 6, "catch-up": 1})
	if want := "comparison 75.0 %, catch-up 12.5 %, revision 12.5 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCountsAreWrittenForPeople(t *testing.T) {
	for n, want := range map[int]string{7: "7", 1_000: "1,000", 100_042: "100,042"} {
		if got := thousands(n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
