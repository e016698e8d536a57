package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/client"
)

// Recorder keeps a history up to date from one watch straight at upstream.
type Recorder struct {
	*History

	path   string
	failed chan error // what ended the recording, if not the test
}

// Start lists a collection at upstream and records every change from there until the test ends.
func Start(t testing.TB, upstream *client.Client, path string) *Recorder {
	t.Helper()
	list, err := client.ParseList(upstream.Get(t, path).Body)
	if err != nil {
		t.Fatal(err)
	}
	return follow(t, upstream, path, list)
}

// StartAt is Start from a revision that is known already.
func StartAt(t testing.TB, upstream *client.Client, path string, rv uint64) *Recorder {
	t.Helper()
	exact := fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact", path, rv)
	list, err := client.ParseList(upstream.Get(t, exact).Body)
	if err != nil {
		t.Fatal(err)
	}
	return follow(t, upstream, path, list)
}

func follow(t testing.TB, upstream *client.Client, path string, list client.List) *Recorder {
	t.Helper()
	history, err := NewHistory(list)
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{history, path, make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.follow(ctx, upstream); err != nil && ctx.Err() == nil {
			r.failed <- err
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		select {
		case err := <-r.failed:
			t.Errorf("the record of %s is broken: %v", path, err)
		default:
		}
	})
	return r
}

// follow watches again from its last revision whenever a watch ends.
func (r *Recorder) follow(ctx context.Context, upstream *client.Client) error {
	for ctx.Err() == nil {
		_, upTo := r.Bounds()
		separator := "?"
		if strings.Contains(r.path, "?") {
			separator = "&"
		}
		path := fmt.Sprintf("%s%swatch=1&allowWatchBookmarks=true&resourceVersion=%d", r.path, separator, upTo)
		stream, err := upstream.Watch(ctx, path)
		if err != nil {
			return err
		}
		if err := r.take(stream); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recorder) take(stream *client.Stream) error {
	defer stream.Close()
	for {
		event, err := stream.Next(time.Hour)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.Add(event); err != nil {
			return err
		}
	}
}
