package faults

import (
	"fmt"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/record"
)

// mostFaults is how many broken rules of one watcher are kept; the first ones tell the story.
const mostFaults = 5

// judge compares what came with the truth, as far as the truth is known, piece after piece: each piece begins where the one
// before it ended, so what is lost, repeated or out of order between two of them shows as well.
func (w *watcher) judge() {
	for {
		_, known := w.truth.Bounds()
		w.mu.Lock()
		p, ripe := w.ripe(known)
		w.mu.Unlock()
		if !ripe {
			return
		}
		faults, at := w.judgePart(p)
		w.mu.Lock()
		w.position = at
		for _, fault := range faults[:min(len(faults), max(0, mostFaults-len(w.faults)))] {
			w.faults = append(w.faults, fault.String())
		}
		w.mu.Unlock()
	}
}

// ripe takes the next part that the truth can speak of. The lock is held.
func (w *watcher) ripe(known uint64) (part, bool) {
	if len(w.pending) == 0 {
		return part{}, false
	}
	next := w.pending[0]
	if next.list != nil {
		if next.list.RV() > known {
			return part{}, false
		}
		w.pending = w.pending[1:]
		return next, true
	}
	ripe := 0
	for ripe < len(next.events) && next.events[ripe].Meta().RV() <= known {
		ripe++
	}
	switch {
	case ripe == len(next.events):
		w.pending = w.pending[1:]
	case ripe == 0 || next.initial:
		return part{}, false
	default:
		w.pending[0].events = next.events[ripe:]
		next.events = next.events[:ripe:ripe]
	}
	return next, true
}

// judgePart gives the broken rules and the position after the part.
func (w *watcher) judgePart(p part) ([]record.Fault, uint64) {
	switch {
	case p.list != nil:
		return append(w.backwards(p.list.RV()), checkItems(w.truth, w.match, p.list.RV(), *p.list)...), p.list.RV()
	case p.initial:
		end := p.events[len(p.events)-1].Meta().RV()
		return append(w.backwards(end), record.CheckWatch(w.truth, w.match, record.Watched{Initial: true, Events: p.events})...), end
	default:
		at := w.position
		for _, event := range p.events {
			at = max(at, event.Meta().RV())
		}
		return record.CheckWatch(w.truth, w.match, record.Watched{After: w.position, Events: p.events}), at
	}
}

// backwards finds a state that is older than what the client had been given.
func (w *watcher) backwards(rv uint64) []record.Fault {
	if rv >= w.position {
		return nil
	}
	return []record.Fault{{Rule: record.Progress, Detail: fmt.Sprintf("a state at %d was given after %d", rv, w.position)}}
}

func checkItems(truth *record.History, match record.Matcher, rv uint64, list client.List) []record.Fault {
	var items [][]byte
	for _, item := range list.Items {
		items = append(items, item)
	}
	return record.CheckList(truth, match, rv, items)
}

// owed is how much of the truth up to a revision the watcher has not been given.
func (w *watcher) owed(upTo uint64) int {
	w.mu.Lock()
	at := w.seen.At
	w.mu.Unlock()
	return len(w.truth.Events(w.match, at, upTo))
}

// complaints are the broken rules so far.
func (w *watcher) complaints() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.faults...)
}

// quiet is how long nothing has come.
func (w *watcher) quiet() time.Duration { return time.Since(w.snapshot().Last) }
