package fresh

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
	"weir.dev/tests/real/wait"
)

// pairs is a namespace in which objects are made and deleted while weir's streams are held back.
type pairs struct {
	form     *form
	kind     kind
	space    string
	upstream *client.Client
	reader   *client.Client
	holder   *cluster.Holder
	truth    *record.Recorder
	streams  []*opened
	rounds   int
}

// opened is a watch through weir, and how it began.
type opened struct {
	name   string
	stream *client.Stream
	asked  record.Watched
}

// byComparison is how weir says that it compared what it holds with what upstream holds.
const byComparison = "mirror; comparison"

// pair creates objects and deletes all of them again: what is there is the same as before, and its history is not.
func (p *pairs) pair(t testing.TB) uint64 {
	t.Helper()
	const objects = 3
	p.rounds++
	var last uint64
	for i := range objects {
		name := fmt.Sprintf("pair-%d-%d", p.rounds, i)
		rv := mustWrite(t, http.MethodPost, p.kind.in(p.space), p.kind.object(name, i))
		last = max(mustWrite(t, http.MethodDelete, p.kind.in(p.space)+"/"+name, nil), rv+1)
	}
	return last
}

func (p *pairs) path(format string, args ...any) string {
	return p.kind.in(p.space) + "?" + fmt.Sprintf(format, args...)
}

func (p *pairs) watch(t testing.TB, name string, w record.Watched, format string, args ...any) *opened {
	t.Helper()
	o := &opened{name, p.reader.MustWatch(t, p.path("watch=1&allowWatchBookmarks=true&"+format, args...)), w}
	p.streams = append(p.streams, o)
	return o
}

// readBehindTheStreams holds the streams back, makes pairs, and asks: as a list, as a watch from that list's revision, and
// as a stream. It returns who answered the list.
func (p *pairs) readBehindTheStreams(t testing.TB) string {
	t.Helper()
	p.holder.Silence(true)
	defer p.holder.Silence(false)
	before := p.holder.Held()
	last := p.pair(t)
	answer := p.reader.Get(t, p.path(""))
	list, err := client.ParseList(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if list.RV() < last || len(list.Items) != 1 {
		t.Errorf("%s: a list at %d with %d objects, want one object at %d or later", p.kind.plural, list.RV(), len(list.Items), last)
	}
	p.watch(t, "watch from the list", record.Watched{After: list.RV()}, "resourceVersion=%d", list.RV())
	p.watch(t, "stream", record.Watched{Initial: true}, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	p.pair(t)
	wait.Eventually(t, "bytes of a stream that had to wait", 10*time.Second, func() error {
		if p.holder.Held() == before {
			return errors.New("none")
		}
		return nil
	})
	by := answer.Header.Get(client.AnsweredBy)
	if by != byComparison && !strings.HasPrefix(by, "passed; ") {
		t.Errorf("%s: %q answered while all streams were held back", p.kind.plural, by)
	}
	return by
}

// judge reads every stream up to a revision and compares it with the truth.
func (p *pairs) judge(t testing.TB, last uint64) {
	t.Helper()
	if err := p.truth.Await(last, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, o := range p.streams {
		o.asked.UpTo = last
		for deadline := time.Now().Add(time.Minute); ; {
			event, err := o.stream.Next(time.Until(deadline))
			if err != nil {
				t.Errorf("%s: %v after %d events, short of %d", o.name, err, len(o.asked.Events), last)
				break
			}
			o.asked.Events = append(o.asked.Events, event)
			if event.Meta().RV() >= last {
				break
			}
		}
		for _, fault := range record.CheckWatch(p.truth.History, record.All, o.asked) {
			t.Errorf("%s of %s, %s: %s", o.name, p.kind.plural, p.form.name, fault)
		}
	}
}

// TestWR10_PairsBehindHeldStreamsAreTold makes pairs that a comparison can't see, and demands that streams show them.
func TestWR10_PairsBehindHeldStreamsAreTold(t *testing.T) {
	judgesWeirItself(t)
	for _, k := range []kind{configMaps, gauges} {
		for _, f := range forms {
			t.Run(f.name+" "+k.plural, func(t *testing.T) { tellPairs(t, f, k) })
		}
	}
}

func tellPairs(t *testing.T, f *form, k kind) {
	p := &pairs{form: f, kind: k, space: namespace(t, "pairs"), upstream: direct(t), reader: caller(t, f.weir.Endpoint(0), "pairs")}
	first := mustWrite(t, http.MethodPost, k.in(p.space), k.object("stays", 0))
	p.truth = record.StartAt(t, p.upstream, k.in(p.space), first)
	var err error
	p.holder, err = plane.A.Hold(func(path string) bool { return strings.Contains(path, "/"+k.plural) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.holder.Close)
	mirrorEverywhere(t, k, first)
	feedFromA(t, k)
	p.watch(t, "watch from before", record.Watched{After: first}, "resourceVersion=%d", first)
	const rounds = 6
	by := map[string]int{}
	for range rounds {
		by[p.readBehindTheStreams(t)]++
		feedMoves(t, p)
	}
	last := mustWrite(t, http.MethodPost, k.in(p.space), k.object("end", 0))
	p.judge(t, last)
	t.Logf("%d streams; lists by %v", len(p.streams), by)
	if by[byComparison] == 0 {
		t.Errorf("no list of %d was proved by comparison: %v", rounds, by)
	}
}

// feedMoves waits until what was held back has come through, so that each round begins with a mirror at the present.
func feedMoves(t testing.TB, p *pairs) {
	t.Helper()
	rv := mustWrite(t, http.MethodPatch, p.kind.in(p.space)+"/stays", p.kind.object("stays", p.rounds))
	wait.Eventually(t, "the mirror", 30*time.Second, func() error {
		list, err := readList(context.Background(), p.reader, p.path("resourceVersion=0"))
		if err == nil && list.RV() < rv {
			err = fmt.Errorf("at %d", list.RV())
		}
		return err
	})
}
