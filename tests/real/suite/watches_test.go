package suite

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
)

// patience is how long an event may take that has to come.
const patience = 15 * time.Second

// story writes a history of every kind of change into a namespace, recorded, and returns its last revision.
func story(t testing.TB, k kind) (*record.Recorder, string, uint64) {
	t.Helper()
	space := namespace(t)
	upstream := direct(t, cluster.AdminToken)
	post := func(name, labels string) {
		write(t, upstream, http.MethodPost, k.in(space), k.object(name, labels))
	}
	patch := func(name, labels string) uint64 {
		return write(t, upstream, http.MethodPatch, k.in(space)+"/"+name, fmt.Appendf(nil, `{"metadata":{"labels":{%s}}}`, labels))
	}
	remove := func(name string) {
		write(t, upstream, http.MethodDelete, k.in(space)+"/"+name, nil)
	}
	post("first", `"color":"red"`)
	post("second", `"color":"blue"`)
	recorder := record.Start(t, upstream, k.in(space))
	post("third", `"color":"red"`)
	patch("first", `"size":"s"`)
	patch("first", `"color":"blue"`) // leaves color=red
	patch("second", `"color":"red"`) // enters it
	remove("second")
	post("second", `"color":"blue"`) // another object of the same name
	remove("second")                 // never matched as a whole
	post("second", `"color":"red"`)
	patch("second", `"color":null`)
	patch("first", `"color":"red"`)
	remove("first")
	post("fourth", `"color":"red"`)
	last := patch("third", `"size":"l"`)
	if err := recorder.Await(last, patience); err != nil {
		t.Fatal(err)
	}
	return recorder, space, last
}

func labelled(color string) record.Matcher {
	return func(o client.Object) bool { return color == "" || o.Metadata.Labels["color"] == color }
}

// TestWR02_ResumeAtEveryRevision resumes at each revision of a history, the ones between its changes included, with and
// without a selector.
func TestWR02_ResumeAtEveryRevision(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		recorder, space, last := story(t, k)
		weir := mirrored(t, cluster.AdminToken)
		awaitMirror(t, weir, k.in(space), last)
		from, _ := recorder.Bounds()
		for rv := from; rv < last; rv++ {
			for _, color := range []string{"", "red"} {
				resume(t, weir, recorder, k.in(space), color, rv, last)
			}
		}
	}
}

func resume(t *testing.T, weir *client.Client, recorder *record.Recorder, path, color string, after, last uint64) {
	t.Helper()
	query := fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=60", path, after)
	if color != "" {
		query += "&labelSelector=color%3D" + color
	}
	stream := watchMirrored(t, weir, query)
	defer stream.Close()
	wanted := recorder.Events(labelled(color), after, last)
	events := stream.Take(t, len(wanted), patience)
	for _, fault := range record.CheckWatch(recorder.History, labelled(color), record.Watched{After: after, UpTo: last, Events: events}) {
		t.Errorf("%s: %s", query, fault)
	}
}

// TestSE02_SelectorTransitions follows a selector live, and by replay compares every frame with upstream's own.
func TestSE02_SelectorTransitions(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		recorder, space, last := story(t, k)
		awaitMirror(t, mirrored(t, cluster.AdminToken), k.in(space), last)
		from, _ := recorder.Bounds()
		for _, selector := range []string{
			"labelSelector=color%3Dred", "labelSelector=!color", "labelSelector=color+in+(blue,red),size%3Ds",
			"fieldSelector=metadata.name%3Dsecond", "fieldSelector=metadata.name!%3Dsecond", "labelSelector=color%3Dgreen",
		} {
			query := fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=2&%s", k.in(space), from, selector)
			t.Run(query, func(t *testing.T) {
				t.Parallel()
				assertSameStream(t, query, mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken))
			})
		}
	}
}

// TestSE01_DeletionsCarryTheRevisionOfTheDeletion resumes from a DELETED event's revision.
func TestSE01_DeletionsCarryTheRevisionOfTheDeletion(t *testing.T) {
	t.Parallel()
	recorder, space, last := story(t, configMaps)
	weir := mirrored(t, cluster.AdminToken)
	path := configMaps.in(space)
	awaitMirror(t, weir, path, last)
	from, _ := recorder.Bounds()
	wanted := recorder.Events(labelled("red"), from, last)
	stream := watchMirrored(t, weir, fmt.Sprintf("%s?watch=1&resourceVersion=%d&labelSelector=color%%3Dred", path, from))
	for _, event := range stream.Take(t, len(wanted), patience) {
		if event.Type == "DELETED" {
			resume(t, weir, recorder, path, "red", event.Meta().RV(), last)
		}
	}
}

// TestWR13_RecreatedObjectIsAnotherObject deletes and recreates one name again and again under an open watch.
func TestWR13_RecreatedObjectIsAnotherObject(t *testing.T) {
	t.Parallel()
	const rounds = 40
	for _, k := range bothKinds {
		space := namespace(t)
		upstream, weir := direct(t, cluster.AdminToken), mirrored(t, cluster.AdminToken)
		from := beginning(t, k, space)
		recorder := record.StartAt(t, upstream, k.in(space), from)
		stream := watchMirrored(t, weir, fmt.Sprintf("%s?watch=1&resourceVersion=%d", k.in(space), from))
		var last uint64
		for round := range rounds {
			last = write(t, upstream, http.MethodPost, k.in(space), k.object("again", fmt.Sprintf(`"round":"%d"`, round)))
			if round < rounds-1 {
				write(t, upstream, http.MethodDelete, k.in(space)+"/again", nil)
			}
		}
		if err := recorder.Await(last, patience); err != nil {
			t.Fatal(err)
		}
		events := stream.Take(t, 2*rounds-1, patience)
		for _, fault := range record.CheckWatch(recorder.History, record.All, record.Watched{After: from, UpTo: last, Events: events}) {
			t.Error(fault)
		}
		list := awaitMirror(t, weir, k.in(space), last)
		object, err := client.ParseObject(list.Items[0])
		if err != nil || len(list.Items) != 2 || object.RV() != last {
			t.Errorf("%s: the last creation was at %d, the list has %d items, the first at %d (%v)", k.plural, last, len(list.Items), object.RV(), err)
		}
	}
}

// TestWR07_TooOldRevisionIsExpiredInTheStream asks for what no history reaches back to.
func TestWR07_TooOldRevisionIsExpiredInTheStream(t *testing.T) {
	t.Parallel()
	weir := through(t, cluster.AdminToken)
	for _, k := range bothKinds {
		stream := weir.MustWatch(t, k.in("lock")+"?watch=1&resourceVersion=1&allowWatchBookmarks=true")
		event := stream.Must(t, patience)
		status := event.Status()
		if event.Type != "ERROR" || status.Kind != "Status" || status.Code != http.StatusGone || status.Reason != "Expired" ||
			!strings.HasPrefix(status.Message, "too old resource version: 1 (") {
			t.Errorf("%s: %s", k.plural, event.Line)
		}
		if _, err := stream.Next(patience); !errors.Is(err, io.EOF) {
			t.Errorf("%s: after the error came %v, want the end", k.plural, err)
		}
	}
}

// TestCT02_WatchEndsWhenItsTimeIsUp measures timeoutSeconds.
func TestCT02_WatchEndsWhenItsTimeIsUp(t *testing.T) {
	t.Parallel()
	weir := mirrored(t, cluster.AdminToken)
	rv := parseList(t, getMirrored(t, weir, configMaps.in("dry")+"?resourceVersion=0").Body).RV()
	began := time.Now()
	query := fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=2&allowWatchBookmarks=true", configMaps.in("dry"), rv)
	events, err := watchMirrored(t, weir, query).Rest(patience)
	if took := time.Since(began); err != nil || took < 1900*time.Millisecond || took > 4*time.Second {
		t.Errorf("ended after %s with %v, want a clean end after 2 s", took, err)
	}
	if len(events) != 0 { // a bookmark would have been due before the start
		t.Errorf("%d events on a watch of nothing, first %s", len(events), events[0].Line)
	}
}

// TestBW08_BW09_BookmarksComeBeforeTheEnd gives a watch a reason for bookmarks in another namespace.
func TestBW08_BW09_BookmarksComeBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		t.Run(k.plural, func(t *testing.T) {
			t.Parallel()
			recorder, space, last := story(t, k)
			elsewhere := namespace(t)
			weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
			awaitMirror(t, weir, k.in(space), last)
			from, _ := recorder.Bounds()
			query := fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=6", k.in(space), from)
			began := time.Now()
			asked := watchMirrored(t, weir, query+"&allowWatchBookmarks=true")
			unasked := watchMirrored(t, weir, query)
			filtered := watchMirrored(t, weir, query+"&allowWatchBookmarks=true&labelSelector=color%3Dnone")
			moved := write(t, upstream, http.MethodPost, k.in(elsewhere), k.object("other", ""))

			events, err := asked.Rest(patience)
			if err != nil {
				t.Fatal(err)
			}
			bookmarks := bookmarksOf(events)
			if len(bookmarks) == 0 {
				t.Fatalf("no bookmark among %d events in %s", len(events), time.Since(began))
			}
			if due := bookmarks[0].At.Sub(began); due < 2500*time.Millisecond || due > 5750*time.Millisecond {
				t.Errorf("the first bookmark came after %s, want 2 s before the end, give or take one", due)
			}
			now := parseList(t, upstream.Get(t, k.in(space)).Body).RV()
			for _, bookmark := range bookmarks {
				if rv := bookmark.Meta().RV(); rv < moved || rv > now {
					t.Errorf("a bookmark says %d, the kind was at %d before it and upstream at %d after it", rv, moved, now)
				}
			}
			if err := recorder.Await(last, patience); err != nil {
				t.Fatal(err)
			}
			for _, fault := range record.CheckWatch(recorder.History, record.All, record.Watched{After: from, UpTo: last, Events: events}) {
				t.Error(fault)
			}
			nothing, err := filtered.Rest(patience)
			if marks := bookmarksOf(nothing); err != nil || len(marks) == 0 || marks[0].Meta().RV() < moved {
				t.Errorf("a watch that matches nothing got %d bookmarks, want one at %d or later (%v)", len(marks), moved, err)
			}
			quiet, err := unasked.Rest(patience)
			if err != nil || len(bookmarksOf(quiet)) > 0 {
				t.Errorf("%d bookmarks for a client that asked for none (%v)", len(bookmarksOf(quiet)), err)
			}
		})
	}
}

func bookmarksOf(events []client.Event) []client.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e client.Event) bool { return e.Type != "BOOKMARK" })
}
