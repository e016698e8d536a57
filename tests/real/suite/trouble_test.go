package suite

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
	"weir.dev/tests/real/record"
)

// followed is one watch through weir beside the truth about it.
type followed struct {
	kind   kind
	space  string
	truth  *record.Recorder
	stream *client.Stream
	from   uint64
	client *client.Client
}

// followBoth opens a watch of each kind that trouble must not end.
func followBoth(t testing.TB) []*followed {
	t.Helper()
	var all []*followed
	for _, k := range bothKinds {
		f := &followed{kind: k, space: namespace(t), client: mirrored(t, cluster.AdminToken)}
		f.from = beginning(t, k, f.space)
		f.truth = record.StartAt(t, direct(t, cluster.AdminToken), k.in(f.space), f.from)
		f.stream = watchMirrored(t, f.client, fmt.Sprintf("%s?watch=1&allowWatchBookmarks=true&resourceVersion=%d", k.in(f.space), f.from))
		all = append(all, f)
	}
	return all
}

// judge waits for everything that was written, within the limit, on the stream that was open all the time.
func (f *followed) judge(t testing.TB, last uint64, limit time.Duration) {
	t.Helper()
	if err := f.truth.Await(last, limit); err != nil {
		t.Fatal(err)
	}
	var events []client.Event
	for deadline := time.Now().Add(limit); len(events) == 0 || events[len(events)-1].Meta().RV() < last; {
		event, err := f.stream.Next(time.Until(deadline))
		if err != nil {
			t.Errorf("%s: the stream brought %d events and then %v", f.kind.plural, len(events), err)
			break
		}
		events = append(events, event)
	}
	report(t, f.kind.plural, record.CheckWatch(f.truth.History, record.All, record.Watched{After: f.from, UpTo: last, Events: events}))
	f.from = last
}

// touch writes n objects into each namespace and returns the last revisions.
func touch(t testing.TB, all []*followed, n int) []uint64 {
	t.Helper()
	upstream := direct(t, cluster.AdminToken)
	var last []uint64
	for _, f := range all {
		var rv uint64
		for range n {
			rv = write(t, upstream, http.MethodPost, f.kind.in(f.space), f.kind.object(fmt.Sprintf("t-%d", serial.Add(1)), ""))
		}
		last = append(last, rv)
	}
	return last
}

func judgeAll(t testing.TB, all []*followed, last []uint64, limit time.Duration) {
	t.Helper()
	for i, f := range all {
		f.judge(t, last[i], limit)
	}
}

// feedFromA moves every feed to instance A, and then opens the way to B again.
func feedFromA(t testing.TB, all []*followed) {
	t.Helper()
	plane.B.Relay.Refuse(true)
	plane.B.Relay.Cut()
	judgeAll(t, all, touch(t, all, 1), time.Minute)
	plane.B.Relay.Refuse(false)
}

// TestRF03_RestartOfOneApiserverCausesNoList restarts the instance that all feeds read from. The other still has the log.
func TestRF03_RestartOfOneApiserverCausesNoList(t *testing.T) {
	all := followBoth(t)
	feedFromA(t, all)
	since := time.Now()
	if err := plane.A.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	judgeAll(t, all, touch(t, all, 20), time.Minute)
	for _, f := range all {
		for _, e := range audit.From(requests(t, audit.Filter{Since: since, Resource: f.kind.plural, Verb: "list"}), audit.Feed) {
			if !strings.Contains(e.URI, "fieldSelector=metadata.name") { // those are questions about one name
				t.Errorf("weir listed again: %s", e)
			}
		}
	}
}

// TestCL04_CutConnectionsCostNoClientAnything cuts all of weir's connections again and again while there are writes.
func TestCL04_CutConnectionsCostNoClientAnything(t *testing.T) {
	all := followBoth(t)
	const rounds = 6
	var last []uint64
	for range rounds {
		last = touch(t, all, 5)
		plane.A.Relay.Cut()
		plane.B.Relay.Cut()
	}
	last = touch(t, all, 5)
	judgeAll(t, all, last, time.Minute)
}

// TestRF07_ChangesDuringAnOutageAreTold takes both apiservers away from weir, and brings them back.
func TestRF07_ChangesDuringAnOutageAreTold(t *testing.T) {
	all := followBoth(t)
	upstream := direct(t, cluster.AdminToken)
	touch(t, all, 3)
	for _, instance := range plane.Instances[:2] {
		instance.Relay.Refuse(true)
		instance.Relay.Cut()
		defer instance.Relay.Refuse(false)
	}
	for _, f := range all {
		write(t, upstream, http.MethodPost, f.kind.in(f.space), f.kind.object("gone", ""))
		write(t, upstream, http.MethodDelete, f.kind.in(f.space)+"/gone", nil)
	}
	last := touch(t, all, 1)
	for _, instance := range plane.Instances[:2] {
		instance.Relay.Refuse(false)
	}
	judgeAll(t, all, last, time.Minute)
}

// TestCS07_RevisionAheadOfWeirIsWaitedFor lets weir's view lag and asks for what it has not seen yet.
func TestCS07_RevisionAheadOfWeirIsWaitedFor(t *testing.T) {
	const lag = 700 * time.Millisecond
	upstream := direct(t, cluster.AdminToken)
	for _, k := range bothKinds {
		space := namespace(t)
		recorder := record.Start(t, upstream, k.in(space))
		weir := through(t, cluster.AdminToken)
		for _, instance := range plane.Instances[:2] {
			instance.Relay.Delay(lag)
			defer instance.Relay.Delay(0)
		}
		rv := write(t, upstream, http.MethodPost, k.in(space), k.object("ahead", ""))
		list := parseList(t, weir.Get(t, fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=NotOlderThan", k.in(space), rv)).Body)
		if list.RV() < rv || len(list.Items) != 1 {
			t.Errorf("%s: not older than %d gave %d items at %d", k.plural, rv, len(list.Items), list.RV())
		}
		after := write(t, upstream, http.MethodPatch, k.in(space)+"/ahead", []byte(`{"metadata":{"labels":{"a":"1"}}}`))
		stream := weir.MustWatch(t, fmt.Sprintf("%s?watch=1&resourceVersion=%d", k.in(space), after))
		last := write(t, upstream, http.MethodPatch, k.in(space)+"/ahead", []byte(`{"metadata":{"labels":{"a":"2"}}}`))
		events := stream.Take(t, 1, patience)
		if err := recorder.Await(last, patience); err != nil {
			t.Fatal(err)
		}
		report(t, k.plural, record.CheckWatch(recorder.History, record.All, record.Watched{After: after, UpTo: last, Events: events}))
		for _, instance := range plane.Instances[:2] {
			instance.Relay.Delay(0)
		}
	}
}

// TestCT04_SilentApiserverIsLeft freezes the instance that all feeds read from: nothing is cut, nothing is said. The
// bound is that of a client that pings a silent connection after 30 s and waits 15 s for the answer.
func TestCT04_SilentApiserverIsLeft(t *testing.T) {
	if !modes.IsLong() {
		t.Skip("takes a minute; WEIR_LONG=1 runs it")
	}
	all := followBoth(t)
	feedFromA(t, all)
	if err := plane.A.Process().Stop(); err != nil {
		t.Fatal(err)
	}
	defer plane.A.Process().Continue()
	const bound = 60 * time.Second
	judgeAll(t, all, touch(t, all, 5), bound)
	if err := plane.A.Process().Continue(); err != nil {
		t.Fatal(err)
	}
	judgeAll(t, all, touch(t, all, 5), time.Minute)
}

// TestWR08_RF08_RevisionFromBeforeWeirsRestart kills a weir of its own, and asks the next one for what it missed. What one weir showed, another knows or waits for.
func TestWR08_RF08_RevisionFromBeforeWeirsRestart(t *testing.T) {
	upstream := direct(t, cluster.AdminToken)
	space := namespace(t)
	recorder := record.Start(t, upstream, configMaps.in(space))
	before := startWeir(t, "before")
	rv := write(t, upstream, http.MethodPost, configMaps.in(space), configMaps.object("seen", ""))
	one := client.New(before.Endpoint(0), cluster.AdminToken, agent(t, "before"))
	shown := awaitMirror(t, one, configMaps.in(space), rv).RV()
	before.Kill()
	var last uint64
	for i := range 3 {
		last = write(t, upstream, http.MethodPost, configMaps.in(space), configMaps.object(fmt.Sprintf("missed-%d", i), ""))
	}
	if err := recorder.Await(last, patience); err != nil {
		t.Fatal(err)
	}
	after := client.New(startWeir(t, "after").Endpoint(0), cluster.AdminToken, agent(t, "after"))
	stream := after.MustWatch(t, fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=10", configMaps.in(space), rv))
	assertAllOrExpired(t, recorder, stream, rv, last)
	list := parseList(t, after.Get(t, fmt.Sprintf("%s?resourceVersion=%d", configMaps.in(space), shown)).Body)
	if list.RV() < shown {
		t.Errorf("the next weir is at %d, the one before had shown %d", list.RV(), shown)
	}
}

// TestWR01_WatchFromBeforeWeirsFirstList watches from a revision that weir itself has never seen.
func TestWR01_WatchFromBeforeWeirsFirstList(t *testing.T) {
	upstream := direct(t, cluster.AdminToken)
	space := namespace(t)
	recorder := record.Start(t, upstream, configMaps.in(space))
	from, _ := recorder.Bounds()
	last := write(t, upstream, http.MethodPost, configMaps.in(space), configMaps.object("early", ""))
	if err := recorder.Await(last, patience); err != nil {
		t.Fatal(err)
	}
	weir := client.New(startWeir(t, "late").Endpoint(0), cluster.AdminToken, agent(t, "late"))
	stream := weir.MustWatch(t, fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=10", configMaps.in(space), from))
	assertAllOrExpired(t, recorder, stream, from, last)
}

// startWeir starts a weir that mirrors config maps and ends with the test.
func startWeir(t testing.TB, name string) *cluster.Weir {
	t.Helper()
	w, err := plane.StartWeir(t.Context(), fmt.Sprintf("%s-%d", name, serial.Add(1)), []string{"configmaps"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	return w
}

// assertAllOrExpired takes either all changes or the one error that makes a client list again. Silence is neither.
func assertAllOrExpired(t testing.TB, recorder *record.Recorder, stream *client.Stream, after, last uint64) {
	t.Helper()
	first := stream.Must(t, patience)
	if first.Type == "ERROR" {
		if status := first.Status(); status.Code != http.StatusGone || status.Reason != "Expired" {
			t.Errorf("the watch ended with %s", first.Line)
		}
		if _, err := stream.Next(patience); !errors.Is(err, io.EOF) {
			t.Errorf("after the error came %v, want the end", err)
		}
		return
	}
	wanted := recorder.Events(record.All, after, last)
	events := append([]client.Event{first}, stream.Take(t, len(wanted)-1, patience)...)
	report(t, "watch", record.CheckWatch(recorder.History, record.All, record.Watched{After: after, UpTo: last, Events: events}))
}
