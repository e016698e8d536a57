package kubelet

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// Log is the output of one container. It can be followed by any number of readers, each at its own pace.
type Log struct {
	mu        sync.Mutex
	changed   chan struct{} // closed and made anew at every change
	text      []byte
	filler    []byte // comes without end once it is set
	ended     bool
	followers int
}

func newLog() *Log { return &Log{changed: make(chan struct{})} }

// Write adds to it.
func (l *Log) Write(text string) { l.change(func() { l.text = append(l.text, text...) }) }

// End is the end of the container.
func (l *Log) End() { l.change(func() { l.ended = true }) }

// Flood makes the container write without end from here on.
func (l *Log) Flood(filler []byte) { l.change(func() { l.filler = filler }) }

// Followers says how many readers are connected.
func (l *Log) Followers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.followers
}

func (l *Log) change(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// follow copies the log to a reader, each piece as soon as it is there, until the container has ended or the reader has gone.
func (l *Log) follow(ctx context.Context, to io.Writer, flush func(), goesOn bool) {
	l.change(func() { l.followers++ })
	defer l.change(func() { l.followers-- })
	at := 0
	for {
		l.mu.Lock()
		piece, filler, ended, changed := l.text[at:], l.filler, l.ended, l.changed
		l.mu.Unlock()
		at += len(piece)
		if len(piece) == 0 {
			piece = filler
		}
		if len(piece) > 0 {
			if _, err := to.Write(piece); err != nil {
				return
			}
			flush()
			continue
		}
		if ended || !goesOn {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func (k *Kubelet) containerLogs(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Transfer-Encoding", "chunked")
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher).Flush
	flush()
	log := k.Log(r.PathValue("namespace"), r.PathValue("pod"))
	log.follow(r.Context(), w, flush, r.URL.Query().Get("follow") == "true")
}
