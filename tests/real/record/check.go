package record

import (
	"bytes"
	"fmt"
	"slices"

	"weir.dev/tests/real/client"
)

// Rule is what a fault broke.
type Rule string

// The rules of the checker.
const (
	Order        Rule = "order"        // revisions of one watch strictly increase
	Repeat       Rule = "repeat"       // no change is told twice
	Completeness Rule = "completeness" // no change is left out
	Truth        Rule = "truth"        // an event is what the change was: type, object, bytes
	Position     Rule = "position"     // nothing at or before the revision asked for
	Bookmark     Rule = "bookmark"     // a bookmark promises only what was delivered
	Exactness    Rule = "exactness"    // a list is the collection at its one revision
	Freshness    Rule = "freshness"    // a list is not older than what was acknowledged before it was asked for
	Progress     Rule = "progress"     // what one client is shown never goes back
)

// Fault is one broken rule.
type Fault struct {
	Rule   Rule
	Detail string
}

func (f Fault) String() string { return string(f.Rule) + ": " + f.Detail }

// Watched is what one watch was given.
type Watched struct {
	// After is the revision that the watch started from; ignored when it began with initial events.
	After uint64
	// Initial says that the watch began with the state, closed by the annotated bookmark.
	Initial bool
	// UpTo is the revision up to which everything must have come; 0 means up to the last thing that came.
	UpTo   uint64
	Events []client.Event
}

// CheckWatch judges what a watch of the matching objects was given.
func CheckWatch(h *History, match Matcher, w Watched) []Fault {
	live := w.Events
	after := w.After
	var faults []Fault
	if w.Initial {
		end := slices.IndexFunc(w.Events, func(e client.Event) bool { return e.Type == "BOOKMARK" && e.Meta().EndsInitialEvents() })
		if end < 0 {
			return []Fault{{Completeness, "no bookmark ended the initial events"}}
		}
		after = w.Events[end].Meta().RV()
		live = w.Events[end+1:]
		faults = checkInitial(h, match, after, w.Events[:end])
	}
	upTo := w.UpTo
	if len(live) > 0 {
		upTo = max(upTo, live[len(live)-1].Meta().RV())
	}
	return append(faults, newFollower(h, match, after, upTo).check(live)...)
}

func checkInitial(h *History, match Matcher, rv uint64, events []client.Event) []Fault {
	var faults []Fault
	var items [][]byte
	for _, event := range events {
		if event.Type != "ADDED" {
			faults = append(faults, Fault{Truth, fmt.Sprintf("%s %s among the initial events", event.Type, event.Meta().Key())})
		}
		items = append(items, event.Object)
	}
	return append(faults, checkState(h, match, rv, items)...)
}

// follower walks along one stream and knows what has to come next.
type follower struct {
	wanted   []Wanted
	at       map[uint64]int // revision to its place in wanted
	given    []bool
	after    uint64
	position uint64 // the highest revision that an event or a bookmark named
	marked   uint64 // the highest revision that a bookmark named
}

func newFollower(h *History, match Matcher, after, upTo uint64) *follower {
	f := &follower{wanted: h.Events(match, after, upTo), at: map[uint64]int{}, after: after, position: after}
	for i, w := range f.wanted {
		f.at[w.Item.RV()] = i
	}
	f.given = make([]bool, len(f.wanted))
	return f
}

func (f *follower) check(events []client.Event) []Fault {
	var faults []Fault
	for _, event := range events {
		faults = append(faults, f.step(event)...)
	}
	if missing := f.missing(^uint64(0)); len(missing) > 0 {
		faults = append(faults, Fault{Completeness, fmt.Sprintf("%d of %d changes after %d did not come: %s",
			len(missing), len(f.wanted), f.after, describe(missing))})
	}
	return faults
}

func (f *follower) step(event client.Event) []Fault {
	meta := event.Meta()
	rv := meta.RV()
	if event.Type == "BOOKMARK" {
		return f.bookmark(rv)
	}
	var faults []Fault
	place, known := f.at[rv]
	name := fmt.Sprintf("%s %s at %d", event.Type, meta.Key(), rv)
	switch {
	case rv <= f.after:
		return []Fault{{Position, fmt.Sprintf("%s came to a watch from %d", name, f.after)}}
	case known && f.given[place]:
		return []Fault{{Repeat, name}}
	case rv <= f.marked:
		faults = append(faults, Fault{Bookmark, fmt.Sprintf("%s came after a bookmark at %d", name, f.marked)})
	case rv <= f.position:
		faults = append(faults, Fault{Order, fmt.Sprintf("%s came after %d", name, f.position)})
	}
	f.position = max(f.position, rv)
	if !known {
		return append(faults, Fault{Truth, name + " never happened, or not to these objects"})
	}
	f.given[place] = true
	return append(faults, f.wanted[place].compare(event)...)
}

func (f *follower) bookmark(rv uint64) []Fault {
	var faults []Fault
	if rv < f.position {
		faults = append(faults, Fault{Order, fmt.Sprintf("a bookmark at %d came after %d", rv, f.position)})
	}
	if missing := f.missing(rv); len(missing) > 0 {
		faults = append(faults, Fault{Bookmark, fmt.Sprintf("a bookmark at %d came before %s", rv, describe(missing))})
	}
	f.position, f.marked = max(f.position, rv), max(f.marked, rv)
	return faults
}

func (f *follower) missing(upTo uint64) []Wanted {
	var missing []Wanted
	for i, w := range f.wanted {
		if !f.given[i] && w.Item.RV() <= upTo {
			missing = append(missing, w)
		}
	}
	return missing
}

func (w Wanted) compare(event client.Event) []Fault {
	name := fmt.Sprintf("%s %s at %s", w.Type, w.Item.Key(), w.Item.Metadata.ResourceVersion)
	if event.Type != w.Type {
		return []Fault{{Truth, fmt.Sprintf("%s came as %s", name, event.Type)}}
	}
	item, err := NewItem(event.Object)
	if err != nil {
		return []Fault{{Truth, fmt.Sprintf("%s: %v", name, err)}}
	}
	if !bytes.Equal(item.Bytes, w.Item.Bytes) {
		return []Fault{{Truth, fmt.Sprintf("%s has other bytes\n got: %s\nwant: %s", name, item.Bytes, w.Item.Bytes)}}
	}
	return nil
}

func describe(wanted []Wanted) string {
	const most = 3
	text := ""
	for _, w := range wanted[:min(len(wanted), most)] {
		text += fmt.Sprintf(" %s %s at %s;", w.Type, w.Item.Key(), w.Item.Metadata.ResourceVersion)
	}
	if len(wanted) > most {
		text += " …"
	}
	return text
}

// CheckList judges a complete list (all pages of it) of the matching objects.
func CheckList(h *History, match Matcher, rv uint64, items [][]byte) []Fault {
	return checkState(h, match, rv, items)
}

func checkState(h *History, match Matcher, rv uint64, items [][]byte) []Fault {
	wanted, err := h.Snapshot(match, rv)
	if err != nil {
		return []Fault{{Exactness, err.Error()}}
	}
	for i := range min(len(wanted), len(items)) {
		item, err := NewItem(items[i])
		if err != nil {
			return []Fault{{Exactness, err.Error()}}
		}
		if !bytes.Equal(item.Bytes, wanted[i].Bytes) {
			return []Fault{{Exactness, fmt.Sprintf("item %d at revision %d\n got: %s\nwant: %s", i, rv, item.Bytes, wanted[i].Bytes)}}
		}
	}
	if len(items) != len(wanted) {
		return []Fault{{Exactness, fmt.Sprintf("%d items at revision %d, want %d", len(items), rv, len(wanted))}}
	}
	return nil
}

// CheckFresh judges a list that was asked for after a write of that revision was acknowledged.
func CheckFresh(acknowledged, rv uint64) []Fault {
	if rv < acknowledged {
		return []Fault{{Freshness, fmt.Sprintf("a list at %d was asked for after the write at %d", rv, acknowledged)}}
	}
	return nil
}

// CheckProgress judges the revisions that one client was shown, in the order in which it asked.
func CheckProgress(revisions []uint64) []Fault {
	for i := 1; i < len(revisions); i++ {
		if revisions[i] < revisions[i-1] {
			return []Fault{{Progress, fmt.Sprintf("%d was shown after %d", revisions[i], revisions[i-1])}}
		}
	}
	return nil
}
