package record

import (
	"fmt"
	"slices"
	"testing"

	"weir.dev/tests/real/client"
)

// The story: a, b and c at 10; then 11 changes a, 12 changes b's color, 13 creates d, 14 deletes a, 15 changes c.
func story(t *testing.T) *History {
	t.Helper()
	list := client.List{Kind: "ConfigMapList", Metadata: client.ListMeta{ResourceVersion: "10"}}
	for i, name := range []string{"a", "b", "c"} {
		list.Items = append(list.Items, object(name, "red", 7+i))
	}
	h, err := NewHistory(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range told() {
		if err := h.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func told() []client.Event {
	return []client.Event{
		event("MODIFIED", "a", "red", 11),
		event("MODIFIED", "b", "blue", 12),
		event("ADDED", "d", "red", 13),
		event("DELETED", "a", "red", 14),
		event("MODIFIED", "c", "red", 15),
	}
}

func object(name, color string, rv int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"n","uid":"u-%s","resourceVersion":"%d","labels":{"color":%q}}}`, name, name, rv, color)
}

func event(kind, name, color string, rv int) client.Event {
	return client.Event{Type: kind, Object: object(name, color, rv)}
}

func bookmark(rv int, end bool) client.Event {
	annotations := ""
	if end {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	return client.Event{Type: "BOOKMARK", Object: fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"%s}}`, rv, annotations)}
}

func red(o client.Object) bool { return o.Metadata.Labels["color"] == "red" }

func rules(faults []Fault) []Rule {
	var found []Rule
	for _, f := range faults {
		found = append(found, f.Rule)
	}
	return found
}

func expect(t *testing.T, faults []Fault, want ...Rule) {
	t.Helper()
	if got := rules(faults); !slices.Equal(got, want) {
		t.Errorf("faults %v, want rules %v", faults, want)
	}
}

func TestRightWatchHasNoFault(t *testing.T) {
	h := story(t)
	expect(t, CheckWatch(h, All, Watched{After: 10, UpTo: 15, Events: told()}))
	resumed := append([]client.Event{bookmark(12, false)}, told()[2:]...)
	expect(t, CheckWatch(h, All, Watched{After: 12, UpTo: 15, Events: resumed}))
}

func TestSelectorTurnsChangesIntoArrivalsAndDepartures(t *testing.T) {
	h := story(t)
	left := event("DELETED", "b", "red", 12) // the object as it was, at the revision that took it away
	right := []client.Event{told()[0], left, told()[2], told()[3], told()[4]}
	expect(t, CheckWatch(h, red, Watched{After: 10, UpTo: 15, Events: right}))
	wrong := slices.Clone(right)
	wrong[1] = event("DELETED", "b", "blue", 12)
	expect(t, CheckWatch(h, red, Watched{After: 10, UpTo: 15, Events: wrong}), Truth)
}

func TestCatchesDroppedEvent(t *testing.T) {
	h := story(t)
	expect(t, CheckWatch(h, All, Watched{After: 10, Events: slices.Delete(told(), 1, 2)}), Completeness)
	expect(t, CheckWatch(h, All, Watched{After: 10, UpTo: 15, Events: told()[:4]}), Completeness)
	expect(t, CheckWatch(h, All, Watched{After: 10, UpTo: 15}), Completeness)
}

func TestCatchesRepeatedEvent(t *testing.T) {
	h := story(t)
	expect(t, CheckWatch(h, All, Watched{After: 10, Events: slices.Insert(told(), 3, told()[1])}), Repeat)
}

func TestCatchesReorderedEvents(t *testing.T) {
	h := story(t)
	events := told()
	events[1], events[2] = events[2], events[1]
	expect(t, CheckWatch(h, All, Watched{After: 10, Events: events}), Order)
}

func TestCatchesStaleEvent(t *testing.T) {
	h := story(t)
	expect(t, CheckWatch(h, All, Watched{After: 11, Events: told()}), Position)
}

func TestCatchesChangedEvent(t *testing.T) {
	h := story(t)
	events := told()
	events[2] = event("MODIFIED", "d", "red", 13)
	expect(t, CheckWatch(h, All, Watched{After: 10, Events: events}), Truth)
	events[2] = event("ADDED", "d", "green", 13)
	expect(t, CheckWatch(h, All, Watched{After: 10, Events: events}), Truth)
	invented := append(told()[:4], event("MODIFIED", "c", "red", 99))
	expect(t, CheckWatch(h, All, Watched{After: 10, Events: invented}), Truth, Completeness)
}

func TestCatchesBookmarkThatPromisesTooMuch(t *testing.T) {
	h := story(t)
	expect(t, CheckWatch(h, All, Watched{After: 10, Events: slices.Insert(told(), 1, bookmark(12, false))}), Bookmark, Bookmark)
	expect(t, CheckWatch(h, All, Watched{After: 10, UpTo: 11, Events: []client.Event{told()[0], bookmark(13, false)}}), Bookmark, Completeness)
	expect(t, CheckWatch(h, All, Watched{After: 10, Events: slices.Insert(told(), 2, bookmark(11, false))}), Order)
}

func TestInitialEventsAreASnapshot(t *testing.T) {
	h := story(t)
	initial := []client.Event{event("ADDED", "b", "blue", 12), event("ADDED", "c", "red", 9), event("ADDED", "d", "red", 13), bookmark(14, true)}
	right := append(slices.Clone(initial), told()[4])
	expect(t, CheckWatch(h, All, Watched{Initial: true, UpTo: 15, Events: right}))
	expect(t, CheckWatch(h, All, Watched{Initial: true, UpTo: 15, Events: initial}), Completeness)
	expect(t, CheckWatch(h, All, Watched{Initial: true, Events: initial[:3]}), Completeness)
	expect(t, CheckWatch(h, All, Watched{Initial: true, UpTo: 15, Events: slices.Delete(slices.Clone(right), 0, 1)}), Exactness)
}

func TestCatchesListMixedOfTwoRevisions(t *testing.T) {
	h := story(t)
	at12 := [][]byte{object("a", "red", 11), object("b", "blue", 12), object("c", "red", 9)}
	expect(t, CheckList(h, All, 12, at12))
	mixed := slices.Clone(at12)
	mixed[1] = object("b", "red", 8)
	expect(t, CheckList(h, All, 12, mixed), Exactness)
	expect(t, CheckList(h, All, 12, at12[:2]), Exactness)
	expect(t, CheckList(h, All, 13, at12), Exactness)
	swapped := [][]byte{at12[1], at12[0], at12[2]}
	expect(t, CheckList(h, All, 12, swapped), Exactness)
	expect(t, CheckList(h, All, 99, at12), Exactness)
}

func TestCatchesStaleList(t *testing.T) {
	expect(t, CheckFresh(12, 12))
	expect(t, CheckFresh(13, 12), Freshness)
	expect(t, CheckProgress([]uint64{1, 1, 5}))
	expect(t, CheckProgress([]uint64{1, 5, 4}), Progress)
}

func TestAHistoryForgetsItsBeginningOnly(t *testing.T) {
	whole, short := story(t), story(t)
	short.Forget(13)
	if _, err := short.Snapshot(All, 12); err == nil {
		t.Error("a forgotten revision has a snapshot")
	}
	for rv := uint64(13); rv <= 15; rv++ {
		want, err := whole.Snapshot(All, rv)
		if err != nil {
			t.Fatal(err)
		}
		var items [][]byte
		for _, item := range want {
			items = append(items, item.Bytes)
		}
		if faults := CheckList(short, All, rv, items); len(faults) > 0 {
			t.Errorf("at %d: %v", rv, faults)
		}
	}
	if got, want := short.Changes(13, 15), whole.Changes(13, 15); len(got) != 2 || len(want) != 2 || got[0].RV != want[0].RV {
		t.Errorf("the changes after 13 are %v, want %v", got, want)
	}
}
