package audit

import (
	"cmp"
	"slices"
	"time"
)

// Span is how long one request kept an apiserver busy: from when it came in to when its answer was complete.
type Span struct {
	Entry
	End time.Time // zero while the answer goes on
}

// complete is the stage of a request whose answer has been given to its end.
const complete = "ResponseComplete"

// Spans gives each request that a filter takes once, in no order.
func (l *Log) Spans(filter Filter) ([]Span, error) {
	entries, err := l.Select(filter)
	return spans(entries), err
}

func spans(entries []Entry) []Span {
	type request struct{ instance, id string }
	known := map[request]int{}
	var all []Span
	for _, e := range entries {
		id := request{e.Instance, e.ID}
		place, seen := known[id]
		if !seen {
			place = len(all)
			known[id] = place
			all = append(all, Span{Entry: e})
		}
		if e.Stage == complete {
			all[place].End = e.Reached
		}
	}
	return all
}

// AtOnce is the largest number of spans that went on at the same time. One that ends when another begins does not meet it.
func AtOnce(spans []Span) int {
	type step struct {
		at time.Time
		by int
	}
	var steps []step
	for _, s := range spans {
		steps = append(steps, step{s.Received, 1})
		if !s.End.IsZero() {
			steps = append(steps, step{s.End, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	now, most := 0, 0
	for _, s := range steps {
		now += s.by
		most = max(most, now)
	}
	return most
}
