package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// Tap records what a client-go client asked and was given, byte for byte, while it goes by. The client sees no difference.
type Tap struct {
	mu        sync.Mutex
	exchanges []*Exchange
}

// Exchange is one request and as much of its answer as the client has read.
type Exchange struct {
	Path   string
	Query  url.Values
	Status int // 0 when there was no answer
	Header http.Header

	mu   sync.Mutex
	body bytes.Buffer
}

// Wrap puts the tap into a transport, as rest.Config.WrapTransport wants it.
func (t *Tap) Wrap(next http.RoundTripper) http.RoundTripper { return tapped{t, next} }

// Exchanges are all requests so far, in the order in which they were answered.
func (t *Tap) Exchanges() []*Exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*Exchange(nil), t.exchanges...)
}

// Body is what was read of the answer so far.
func (e *Exchange) Body() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return bytes.Clone(e.body.Bytes())
}

// IsWatch tells a stream from a list.
func (e *Exchange) IsWatch() bool { return e.Query.Get("watch") != "" }

// Events are the whole lines of a stream so far.
func (e *Exchange) Events() ([]Event, error) {
	body := e.Body()
	var events []Event
	for {
		line, rest, whole := bytes.Cut(body, []byte("\n"))
		if !whole {
			return events, nil
		}
		event := Event{Line: line}
		if err := json.Unmarshal(line, &event); err != nil {
			return events, err
		}
		events, body = append(events, event), rest
	}
}

type tapped struct {
	tap  *Tap
	next http.RoundTripper
}

func (t tapped) RoundTrip(request *http.Request) (*http.Response, error) {
	exchange := &Exchange{Path: request.URL.Path, Query: request.URL.Query()}
	response, err := t.next.RoundTrip(request)
	if err == nil {
		exchange.Status, exchange.Header = response.StatusCode, response.Header
		response.Body = teed{response.Body, exchange}
	}
	t.tap.mu.Lock()
	defer t.tap.mu.Unlock()
	t.tap.exchanges = append(t.tap.exchanges, exchange)
	return response, err
}

type teed struct {
	io.ReadCloser
	exchange *Exchange
}

func (t teed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.exchange.mu.Lock()
	defer t.exchange.mu.Unlock()
	t.exchange.body.Write(p[:n])
	return n, err
}
