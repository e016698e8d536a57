// Package record holds the truth about a collection, as upstream itself told it, and judges what clients were given by
// plain functions over recorded histories. Bytes are compared without kind and apiVersion, which upstream writes in
// watch events and leaves out of the items of built-in lists.
package record

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"weir.dev/tests/real/client"
)

// Item is one object at one revision.
type Item struct {
	client.Object
	Bytes []byte // without type
}

// Change is one step of the log. Before is nil for a creation; for a deletion After is nil and Last the object as
// upstream showed it, carrying the revision of the deletion.
type Change struct {
	RV            uint64
	Before, After *Item
	Last          *Item
}

// History is a collection at one revision and every change since. It grows while a recorder feeds it.
type History struct {
	mu      sync.Mutex
	moved   chan struct{} // closed and replaced when upTo moves
	from    uint64
	upTo    uint64
	base    map[string]*Item
	now     map[string]*Item
	changes []Change
}

// Matcher says whether an object belongs to what a client asked for.
type Matcher func(client.Object) bool

// All takes every object.
func All(client.Object) bool { return true }

// Wanted is one event that a client must be given.
type Wanted struct {
	Type string
	Item Item
}

var typeMeta = regexp.MustCompile(`^\{"kind":"[^"]*","apiVersion":"[^"]*",`)

// NewItem reads an object.
func NewItem(raw []byte) (*Item, error) {
	object, err := client.ParseObject(raw)
	if err != nil {
		return nil, err
	}
	return &Item{object, typeMeta.ReplaceAll(bytes.Clone(raw), []byte("{"))}, nil
}

// at is the item with another revision written into it, as upstream does when an object leaves a selector.
func (i Item) at(rv uint64) Item {
	revision := func(rv any) []byte { return fmt.Appendf(nil, `"resourceVersion":"%v"`, rv) }
	i.Bytes = bytes.Replace(i.Bytes, revision(i.Metadata.ResourceVersion), revision(rv), 1)
	i.Metadata.ResourceVersion = fmt.Sprint(rv)
	return i
}

// NewHistory starts from a list.
func NewHistory(list client.List) (*History, error) {
	h := &History{moved: make(chan struct{}), from: list.RV(), upTo: list.RV(), base: map[string]*Item{}, now: map[string]*Item{}}
	for _, raw := range list.Items {
		item, err := NewItem(raw)
		if err != nil {
			return nil, err
		}
		h.base[item.Key()], h.now[item.Key()] = item, item
	}
	return h, nil
}

// Add takes the next event of upstream's own watch.
func (h *History) Add(event client.Event) error {
	item, err := NewItem(event.Object)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	rv := item.RV()
	if rv < h.upTo || (rv == h.upTo && event.Type != "BOOKMARK") {
		return fmt.Errorf("the truth went from %d to %d", h.upTo, rv)
	}
	key := item.Key()
	change := Change{RV: rv, Before: h.now[key]}
	switch event.Type {
	case "ADDED", "MODIFIED":
		change.After = item
		h.now[key] = item
		h.changes = append(h.changes, change)
	case "DELETED":
		change.Last = item
		delete(h.now, key)
		h.changes = append(h.changes, change)
	case "BOOKMARK":
	default:
		return fmt.Errorf("the truth holds %s", event.Line)
	}
	h.upTo = rv
	close(h.moved)
	h.moved = make(chan struct{})
	return nil
}

// Await waits until the history reaches a revision.
func (h *History) Await(rv uint64, limit time.Duration) error {
	deadline := time.After(limit)
	for {
		h.mu.Lock()
		upTo, moved := h.upTo, h.moved
		h.mu.Unlock()
		if upTo >= rv {
			return nil
		}
		select {
		case <-moved:
		case <-deadline:
			return fmt.Errorf("the truth stands at %d, short of %d, after %s", upTo, rv, limit)
		}
	}
}

// Bounds are the first and the last revision that the history can speak of.
func (h *History) Bounds() (from, upTo uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.from, h.upTo
}

// Changes are the steps after one revision up to another.
func (h *History) Changes(after, upTo uint64) []Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	from, _ := slices.BinarySearchFunc(h.changes, after+1, byRevision)
	to, found := slices.BinarySearchFunc(h.changes, upTo, byRevision)
	if found {
		to++
	}
	if from >= to {
		return nil
	}
	return slices.Clone(h.changes[from:to])
}

func byRevision(change Change, rv uint64) int { return cmp.Compare(change.RV, rv) }

// Forget moves the first revision of which the history can speak up to another, and drops the changes before it.
func (h *History) Forget(before uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = min(before, h.upTo)
	if before <= h.from {
		return
	}
	kept := slices.IndexFunc(h.changes, func(c Change) bool { return c.RV > before })
	if kept < 0 {
		kept = len(h.changes)
	}
	for _, change := range h.changes[:kept] {
		if change.After != nil {
			h.base[change.After.Key()] = change.After
		} else {
			delete(h.base, change.Last.Key())
		}
	}
	h.from, h.changes = before, slices.Clone(h.changes[kept:])
}

// Snapshot is the collection at a revision, in key order.
func (h *History) Snapshot(match Matcher, rv uint64) ([]Item, error) {
	if from, upTo := h.Bounds(); rv < from || rv > upTo {
		return nil, fmt.Errorf("revision %d is outside the record, %d to %d", rv, from, upTo)
	}
	h.mu.Lock()
	state := maps.Clone(h.base)
	h.mu.Unlock()
	for _, change := range h.Changes(0, rv) {
		if change.After != nil {
			state[change.After.Key()] = change.After
		} else {
			delete(state, change.Last.Key())
		}
	}
	var items []Item
	for _, item := range state {
		if match(item.Object) {
			items = append(items, *item)
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.Key(), b.Key()) })
	return items, nil
}

// Events are what a watch of the matching objects must deliver after one revision up to another.
func (h *History) Events(match Matcher, after, upTo uint64) []Wanted {
	var wanted []Wanted
	for _, change := range h.Changes(after, upTo) {
		if w, any := change.seenBy(match); any {
			wanted = append(wanted, w)
		}
	}
	return wanted
}

// seenBy is the change as a watch sees it: what leaves the selector is deleted for it, what enters is added.
func (c Change) seenBy(match Matcher) (Wanted, bool) {
	before := c.Before != nil && match(c.Before.Object)
	after := c.After != nil && match(c.After.Object)
	switch {
	case before && after:
		return Wanted{"MODIFIED", *c.After}, true
	case after:
		return Wanted{"ADDED", *c.After}, true
	case before && c.After == nil:
		return Wanted{"DELETED", *c.Last}, true
	case before:
		return Wanted{"DELETED", c.Before.at(c.RV)}, true
	default:
		return Wanted{}, false
	}
}
