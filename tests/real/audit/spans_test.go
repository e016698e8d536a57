package audit

import (
	"testing"
	"time"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// entry is a stage of a request that came in at one second and reached the stage at another.
func entry(instance, id, stage string, received, reached int) Entry {
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	return Entry{ID: id, Instance: instance, Stage: stage, Received: at(received), Reached: at(reached)}
}

func TestRequestsAtOnceAreCounted(t *testing.T) {
	const started = "ResponseStarted"
	entries := []Entry{
		entry("a", "1", complete, 0, 2),
		entry("a", "2", started, 1, 1), // a watch
		entry("b", "2", complete, 1, 2),
		entry("a", "3", complete, 2, 4), // begins as two others end
		entry("a", "2", complete, 1, 3),
		entry("a", "4", started, 5, 5), // goes on
		entry("a", "5", complete, 6, 7),
	}
	all := spans(entries)
	if len(all) != 6 {
		t.Errorf("%d requests, want 6", len(all))
	}
	for _, c := range []struct{ from, to, want int }{{0, 6, 3}, {3, 6, 2}, {0, 1, 1}, {0, 0, 0}} {
		if got := AtOnce(all[c.from:c.to]); got != c.want {
			t.Errorf("requests %d to %d: %d at once, want %d", c.from, c.to, got, c.want)
		}
	}
}
