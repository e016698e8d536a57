package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
	"weir.dev/tests/real/wait"
)

// watcher is a client that holds one watch for ever: when its stream breaks it goes on from the last revision that it was
// given, at its own proxy or, if that can't be reached, at another. It lists again only when it is told to (410).
type watcher struct {
	form
	home    int
	clients []*client.Client // one for each proxy
	truth   *record.History
	told    func(client.Event) // if set: called for each live event
	returns bool               // goes back to its own proxy after a while at another

	mu       sync.Mutex
	pending  []part
	seen     seen
	position uint64 // what has been judged so far
	faults   []string
}

// part is what came and is not judged yet: one list, one initial state, or some events.
type part struct {
	list    *client.List
	initial bool
	events  []client.Event
}

// seen is what happened to a watcher. Gaps are between two things that came.
type seen struct {
	Streams, Broken, Relists, Refused, Delivered int
	Proxy                                        int    // where the stream is
	At                                           uint64 // the last revision given
	Last                                         time.Time
	Latest                                       error // why the last stream ended, or an attempt failed
}

func (f form) watcher(number, home int, endpoints []client.Endpoint, truth *record.History) *watcher {
	w := &watcher{form: f, home: home, truth: truth}
	for _, endpoint := range endpoints {
		w.clients = append(w.clients, client.New(endpoint, cluster.AdminToken, fmt.Sprintf("faults-watcher-%d/%s", number, f.kind.plural)))
	}
	return w
}

func (w *watcher) String() string {
	return fmt.Sprintf("%s of %s in %q at proxy %d, watchList=%v", w.name, w.kind.plural, w.space, w.home, w.watchList)
}

// errExpired is the answer after which a client has to list again.
var errExpired = errors.New("expired")

const (
	// retry is how long a client waits after a failed attempt.
	retry = 50 * time.Millisecond
	// reach bounds the wait for the head of an answer.
	reach = 15 * time.Second
	// visit is how long a watcher that returns stays at another proxy than its own.
	visit = 5 * time.Second
	// burst and rest are the two halves of a slow reader's time.
	burst = time.Second
	rest  = 2 * time.Second
)

// run follows the collection until the context ends.
func (w *watcher) run(ctx context.Context) {
	defer func() {
		for _, c := range w.clients {
			c.Close()
		}
	}()
	begun := false
	for attempt := w.home; ctx.Err() == nil; {
		proxy := attempt % len(w.clients)
		var err error
		if begun {
			err = w.follow(ctx, proxy)
		} else {
			begun, err = w.begin(ctx, proxy)
		}
		if errors.Is(err, errExpired) {
			w.note(func(s *seen) { s.Relists++ })
			begun = false
		}
		w.note(func(s *seen) { s.Latest = err })
		if unreachable(err) {
			attempt++
			wait.Pause(ctx, retry)
		} else {
			attempt = w.home
		}
	}
}

// unreachable tells an attempt that brought no stream from a stream that broke.
func unreachable(err error) bool {
	return err != nil && !errors.As(err, new(broken)) && !errors.Is(err, errExpired)
}

// broken is the end of a stream that had begun.
type broken struct{ error }

// begin gets the state: by a list, after which follow comes, or by a stream that is followed here.
func (w *watcher) begin(ctx context.Context, proxy int) (bool, error) {
	at := w.snapshot().At
	if w.watchList {
		path := w.path("watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=%d", at)
		return w.stream(ctx, proxy, path, true)
	}
	answer, err := w.clients[proxy].Send(ctx, client.Request{Path: w.path("resourceVersion=%d", at)})
	if err != nil {
		return false, err
	}
	if answer.Status != http.StatusOK {
		return false, w.refusal(&client.Refused{Answer: answer})
	}
	list, err := client.ParseList(answer.Body)
	if err != nil {
		return false, err
	}
	w.take(part{list: &list}, list.RV())
	return true, nil
}

func (w *watcher) follow(ctx context.Context, proxy int) error {
	_, err := w.stream(ctx, proxy, w.path("watch=1&allowWatchBookmarks=true&resourceVersion=%d", w.snapshot().At), false)
	return err
}

// stream reads one stream to its end and says whether the state is complete. An initial state counts as soon as its end
// was marked; before that it promised nothing.
func (w *watcher) stream(ctx context.Context, proxy int, path string, initial bool) (bool, error) {
	ahead := 1 << 12
	if w.slow {
		ahead = 1
	}
	head, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(reach, cancel)
	stream, err := w.clients[proxy].WatchAhead(head, path, ahead)
	timer.Stop()
	if err != nil {
		return !initial, w.refusal(err)
	}
	defer stream.Close()
	w.note(func(s *seen) { s.Streams, s.Proxy = s.Streams+1, proxy })
	return w.read(ctx, stream, initial)
}

func (w *watcher) read(ctx context.Context, stream *client.Stream, initial bool) (bool, error) {
	var state []client.Event
	opened := time.Now()
	resting := opened.Add(burst)
	for {
		if w.returns && !initial && time.Since(opened) > visit && w.snapshot().Proxy != w.home {
			return true, broken{errors.New("went home")}
		}
		event, err := stream.Next(time.Second)
		if errors.Is(err, client.ErrQuiet) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				w.note(func(s *seen) { s.Broken++ })
			}
			return !initial, broken{err}
		}
		if event.Type == "ERROR" {
			return !initial, w.ended(event)
		}
		if initial {
			state = append(state, event)
			if event.Type == "BOOKMARK" && event.Meta().EndsInitialEvents() {
				w.take(part{initial: true, events: state}, event.Meta().RV())
				initial = false
			}
			continue
		}
		w.take(part{events: []client.Event{event}}, event.Meta().RV())
		if w.told != nil {
			w.told(event)
		}
		if w.slow && time.Now().After(resting) {
			wait.Pause(ctx, rest)
			resting = time.Now().Add(burst)
		}
	}
}

// ended judges the last event of a stream that ended with a reason.
func (w *watcher) ended(event client.Event) error {
	status := event.Status()
	if status.Code == http.StatusGone {
		return fmt.Errorf("%w: %s", errExpired, status.Message)
	}
	w.note(func(s *seen) { s.Broken++ })
	return broken{fmt.Errorf("the stream ended with %d %s", status.Code, status.Message)}
}

func (w *watcher) refusal(err error) error {
	var refused *client.Refused
	if !errors.As(err, &refused) {
		return err
	}
	if refused.Answer.Status == http.StatusGone {
		return fmt.Errorf("%w: %s", errExpired, client.Excerpt(refused.Answer.Body))
	}
	w.note(func(s *seen) { s.Refused++ })
	return err
}

func (w *watcher) note(change func(*seen)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.seen)
}

func (w *watcher) snapshot() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

func (w *watcher) take(p part, at uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.At, w.seen.Last = at, time.Now()
	w.seen.Delivered += len(p.events)
	if last := len(w.pending) - 1; last >= 0 && p.list == nil && !p.initial && w.pending[last].list == nil && !w.pending[last].initial {
		w.pending[last].events = append(w.pending[last].events, p.events...)
		return
	}
	w.pending = append(w.pending, p)
}
