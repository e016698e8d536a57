package fresh

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/wait"
)

// newcomer is a client as controllers are: it reads the state, as a list or as a stream, and watches on from there. Told to
// come again it does so when it was told to. It ends when it has seen the object that it waits for.
type newcomer struct {
	client  *client.Client
	kind    kind
	streams bool   // reads the state as a stream
	query   string // of its list
	await   string // name of the object

	crush *crush
	rv    uint64 // where its watch goes on; 0 when it has to read the state
	found bool
	isIn  bool // its watch was open at least once
}

// crush is what all newcomers of one test have in common.
type crush struct {
	in, done  atomic.Int64
	toldLater atomic.Int64 // answers that told one to come again
	relists   atomic.Int64 // times that one had to read the state again

	mu sync.Mutex
	by map[string]int // who answered, for lists and for watches
}

func (c *crush) answered(what string, header http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[what+" by "+header.Get(client.AnsweredBy)]++
}

// live goes on until the object was seen.
func (n *newcomer) live(ctx context.Context) error {
	for !n.found {
		var err error
		switch {
		case n.rv != 0:
			err = n.watch(ctx, fmt.Sprintf("watch=1&allowWatchBookmarks=true&resourceVersion=%d", n.rv))
		case n.streams:
			err = n.watch(ctx, "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		default:
			err = n.list(ctx)
		}
		if err != nil {
			return err
		}
	}
	n.crush.done.Add(1)
	return nil
}

// open sends a request; nil when it was told to come again, and has waited.
func (n *newcomer) open(ctx context.Context, query, what string) (*http.Response, error) {
	response, err := n.client.Open(ctx, client.Request{Path: n.kind.in("") + "?" + query})
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		n.crush.answered(what, response.Header)
		return response, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusTooManyRequests || err != nil {
		return nil, fmt.Errorf("%s: %d %s (%v)", query, response.StatusCode, client.Excerpt(body), err)
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		return nil, fmt.Errorf("told to come again, not when: %w", err)
	}
	n.crush.toldLater.Add(1)
	wait.Pause(ctx, time.Duration(seconds)*time.Second)
	return nil, ctx.Err()
}

func (n *newcomer) list(ctx context.Context) error {
	response, err := n.open(ctx, n.query, "list")
	if response == nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	list, err := client.ParseList(body)
	n.rv = list.RV()
	return err
}

// watch reads a stream to its end, which is none of the newcomer's.
func (n *newcomer) watch(ctx context.Context, query string) error {
	response, err := n.open(ctx, query, "watch")
	if response == nil {
		return err
	}
	defer response.Body.Close()
	if !n.isIn {
		n.isIn = true
		n.crush.in.Add(1)
	}
	const mostRead = 2 << 10 // there are thousands of newcomers
	lines := bufio.NewReaderSize(response.Body, mostRead)
	for !n.found {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := n.take(line); err != nil {
			return err
		}
	}
	return nil
}

// take reads an event. A newcomer that reads the state as a stream has it at the mark of its end; a stream that ends before
// is begun again.
func (n *newcomer) take(line []byte) error {
	var event client.Event
	if err := json.Unmarshal(line, &event); err != nil {
		return err
	}
	object := event.Meta()
	switch {
	case event.Type == "ERROR" && event.Status().Code == http.StatusGone:
		n.rv = 0
		n.crush.relists.Add(1)
		return nil
	case event.Type == "ERROR":
		return fmt.Errorf("in a stream: %s", line)
	case n.rv != 0 || object.EndsInitialEvents():
		n.rv = object.RV()
	}
	n.found = object.Metadata.Name == n.await
	return nil
}
