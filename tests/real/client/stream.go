package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// Event is one line of a JSON watch.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
	Line   []byte          `json:"-"` // the whole line without its end
	At     time.Time       `json:"-"` // when it was read
}

// ErrQuiet says that a stream stayed open and brought nothing in the time given. It is not an end of the stream.
var ErrQuiet = errors.New("no event in time")

// Stream is an open watch. Its events are read ahead by a goroutine of its own, which ends with the stream or with Close.
type Stream struct {
	Header http.Header

	events chan Event
	end    error // why events was closed; read after that only
	cancel context.CancelFunc
}

// Refused is an answer to a watch that is not a stream.
type Refused struct{ Answer Answer }

func (r *Refused) Error() string {
	return fmt.Sprintf("watch refused: %d %s", r.Answer.Status, Excerpt(r.Answer.Body))
}

// backlog is how many events may wait unread: more than any test sends on one stream that it doesn't read.
const backlog = 1 << 14

// Watch opens a stream. An answer other than 200 comes back as *Refused.
func (c *Client) Watch(ctx context.Context, path string) (*Stream, error) {
	return c.WatchAhead(ctx, path, backlog)
}

// WatchAhead is Watch with a bound of its own on the events that are read ahead; beyond it nothing is read from the server.
func (c *Client) WatchAhead(ctx context.Context, path string, ahead int) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	response, err := c.Open(ctx, Request{Path: path})
	if err != nil {
		cancel()
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return nil, &Refused{Answer{response.StatusCode, response.Header, body}}
	}
	s := &Stream{Header: response.Header, events: make(chan Event, ahead), cancel: cancel}
	go s.read(ctx, response.Body)
	return s, nil
}

// MustWatch is Watch for tests; the stream is closed when the test ends.
func (c *Client) MustWatch(t testing.TB, path string) *Stream {
	t.Helper()
	stream, err := c.Watch(t.Context(), path)
	if err != nil {
		t.Fatalf("%s: watch %s: %v", c.Endpoint.Name, path, err)
	}
	t.Cleanup(stream.Close)
	return stream
}

func (s *Stream) read(ctx context.Context, body io.ReadCloser) {
	defer close(s.events)
	defer body.Close()
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			event := Event{At: time.Now(), Line: bytes.TrimSuffix(line, []byte("\n"))}
			if err := json.Unmarshal(line, &event); err != nil {
				s.end = fmt.Errorf("unreadable event %q: %w", Excerpt(line), err)
				return
			}
			select {
			case s.events <- event:
			case <-ctx.Done():
				s.end = ctx.Err()
				return
			}
		}
		if err != nil {
			s.end = err
			return
		}
	}
}

// Close ends the stream from this side.
func (s *Stream) Close() { s.cancel() }

// Next waits for one event. It returns io.EOF after a clean end, ErrQuiet when nothing came within the limit.
func (s *Stream) Next(limit time.Duration) (Event, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case event, open := <-s.events:
		if !open {
			return Event{}, s.end
		}
		return event, nil
	case <-timer.C:
		return Event{}, ErrQuiet
	}
}

// Must is Next for an event that has to come.
func (s *Stream) Must(t testing.TB, limit time.Duration) Event {
	t.Helper()
	event, err := s.Next(limit)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	return event
}

// Rest reads until the stream ends by itself, at most for the limit.
func (s *Stream) Rest(limit time.Duration) ([]Event, error) {
	var events []Event
	deadline := time.Now().Add(limit)
	for {
		event, err := s.Next(time.Until(deadline))
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event)
	}
}

// Take reads n events, each within the limit.
func (s *Stream) Take(t testing.TB, n int, limit time.Duration) []Event {
	t.Helper()
	events := make([]Event, 0, n)
	for len(events) < n {
		event, err := s.Next(limit)
		if err != nil {
			t.Fatalf("watch: %v after %d of %d events", err, len(events), n)
		}
		events = append(events, event)
	}
	return events
}
