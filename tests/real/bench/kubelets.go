package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"weir.dev/tests/real/client"
)

const (
	// markLimit is when a WatchList that has not come to the end of its initial events counts as failed.
	markLimit = 30 * time.Second
	// streamsEach is how many streams share a connection: what an apiserver allows.
	streamsEach = 100
	// held is how long all streams stay open after the last of them has come to its mark.
	held = 2 * time.Second
	// settling is how long everything rests after the streams of a run were closed.
	settling = 3 * time.Second
)

// endMark is what the bookmark at the end of the initial events contains, and no other event.
var endMark = []byte(`"k8s.io/initial-events-end":"true"`)

// kubelets is one run: WatchLists by name, begun at an even rate and held.
type kubelets struct {
	settings
	atWeir bool
	agent  string

	mu       sync.Mutex
	marks    []time.Duration // from the moment at which it was to be begun
	answered map[string]int
	failed   map[string]int
	early    int // streams that ended before they were closed

	began, ended time.Time // from the first request to the last mark
	used         spent
	asked        asked
}

func newKubelets(s settings, atWeir bool) *kubelets {
	place := "upstream"
	if atWeir {
		place = "weir"
	}
	agent := fmt.Sprintf("weir-bench/kubelets-%s-%d", place, s.rate)
	return &kubelets{settings: s, atWeir: atWeir, agent: agent, answered: map[string]int{}, failed: map[string]int{}}
}

// measureKubelets runs the scenario at two rates, each at weir and straight at upstream, while another kind is written. The
// first result is what breaks a bound in counts.
func measureKubelets(ctx context.Context, p *plane) ([]error, error) {
	runs := []*kubelets{
		newKubelets(p.settings, true), newKubelets(p.settings, false),
		newKubelets(p.settings.slow(), true), newKubelets(p.settings.slow(), false),
	}
	w := p.write(ctx, leases)
	for _, k := range runs {
		if err := k.run(ctx, p); err != nil {
			return nil, err
		}
	}
	rate, err := w.end()
	if err != nil {
		return nil, err
	}
	if err := p.countRequests(runs); err != nil {
		return nil, err
	}
	return printKubelets(runs, rate), p.printProofs(ctx)
}

// watchList is the query of a kubelet that follows one object, but for its name.
const watchList = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3D"

// wanted is the path of a run's n-th WatchList: both kinds, then all namespaces, then all names in turn.
func (p *plane) wanted(n int) string {
	k := []kind{secrets, configMaps}[n%2]
	near := p.stock[k.plural]
	if k == configMaps {
		near = p.near
	}
	collection, name := path.Split(near[n/2%len(near)])
	return strings.TrimSuffix(collection, "/") + watchList + name
}

// run begins the WatchLists, waits until each has come to its mark or failed, holds them for a while and closes them.
func (k *kubelets) run(ctx context.Context, p *plane) error {
	clients := p.clients(k.atWeir, k.agent, 1+k.watches/streamsEach)
	defer clients.Close()
	for _, c := range clients { // a kubelet's connection is there already
		if _, err := c.Send(ctx, client.Request{Path: "/version"}); err != nil {
			return err
		}
	}
	before, err := p.spentSoFar()
	if err != nil {
		return err
	}
	streams, closeAll := context.WithCancel(ctx)
	defer closeAll()
	var marked, open sync.WaitGroup
	every := time.Second / time.Duration(k.rate)
	k.began = time.Now()
	for n := range k.watches {
		intended := k.began.Add(time.Duration(n) * every)
		if err := pause(ctx, time.Until(intended)); err != nil {
			return err
		}
		marked.Add(1)
		begun := due{clients.turn(n), p.wanted(n), intended}
		open.Go(func() { k.follow(streams, begun, marked.Done) })
	}
	marked.Wait()
	k.ended = time.Now()
	after, err := p.spentSoFar()
	if err != nil {
		return err
	}
	k.used = after.minus(before)
	if err := pause(ctx, held); err != nil {
		return err
	}
	closeAll()
	open.Wait()
	return pause(ctx, settling)
}

// due is a WatchList that is to be begun at a moment.
type due struct {
	client *client.Client
	uri    string
	at     time.Time
}

// follow reads one stream until it is closed. It says when the initial events are over, or will never be.
func (k *kubelets) follow(ctx context.Context, d due, marked func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(time.Until(d.at.Add(markLimit)), func() { cancel(errNoMark) })
	defer late.Stop()
	tell := sync.OnceFunc(marked)
	defer tell()
	lines, by, err := open(ctx, d)
	seen := false
	for err == nil {
		var line []byte
		if line, err = lines.ReadSlice('\n'); err == nil && !seen && bytes.Contains(line, endMark) {
			seen = true
			late.Stop()
			k.mark(time.Since(d.at), by)
			tell()
		}
	}
	k.end(ctx, seen, err)
}

var errNoMark = errors.New("no mark in time")

// open begins a stream and returns its lines and where they come from. The body is closed with the context.
func open(ctx context.Context, d due) (*bufio.Reader, string, error) {
	response, err := d.client.Open(ctx, client.Request{Path: d.uri})
	if err != nil {
		return nil, "", err
	}
	context.AfterFunc(ctx, func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		return nil, "", errors.New(response.Status)
	}
	return bufio.NewReaderSize(response.Body, longestLine), source(response.Header), nil
}

// longestLine is room for an event of a small object.
const longestLine = 8 << 10

func (k *kubelets) mark(after time.Duration, by string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.marks = append(k.marks, after)
	k.answered[by]++
}

// end counts a stream that failed, or that ended before it was closed.
func (k *kubelets) end(ctx context.Context, seen bool, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case seen && ctx.Err() == nil:
		k.early++
	case !seen && errors.Is(context.Cause(ctx), errNoMark):
		k.failed[errNoMark.Error()]++
	case !seen:
		k.failed[why.Error()]++
	}
}
