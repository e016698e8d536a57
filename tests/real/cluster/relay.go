package cluster

import (
	"net"
	"sync"
	"time"
)

// Relay is a TCP relay in front of one apiserver: what weir takes for the apiserver's address. It can move to another
// target, cut, refuse, silence and delay connections. A silenced connection stays open, as when a route was lost.
type Relay struct {
	listener net.Listener

	mu      sync.Mutex
	changed *sync.Cond
	target  string
	refused bool
	silent  bool
	delay   time.Duration
	open    map[net.Conn]struct{}
}

// relayChunk is what is read at once; relayQueue × relayChunk = 4 MiB is what a delayed direction may hold.
const (
	relayChunk = 32 << 10
	relayQueue = 128
)

// NewRelay listens on a free port of the loopback.
func NewRelay() (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: listener, open: map[net.Conn]struct{}{}}
	r.changed = sync.NewCond(&r.mu)
	go r.accept()
	return r, nil
}

// Addr is the relay's own address.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Pin sends new connections to a target; open ones stay where they are.
func (r *Relay) Pin(target string) { r.set(func() { r.target = target }) }

// Refuse makes the relay close new connections at once, or take them again.
func (r *Relay) Refuse(refused bool) { r.set(func() { r.refused = refused }) }

// Silence holds back every byte in both directions until it is called with false.
func (r *Relay) Silence(silent bool) { r.set(func() { r.silent = silent }) }

// Delay makes every byte from the server that much late.
func (r *Relay) Delay(delay time.Duration) { r.set(func() { r.delay = delay }) }

// Cut closes all open connections and says how many there were.
func (r *Relay) Cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for connection := range r.open {
		connection.Close()
	}
	return len(r.open)
}

// Close ends the relay and its connections.
func (r *Relay) Close() {
	r.listener.Close()
	r.Silence(false)
	r.Cut()
}

func (r *Relay) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	r.changed.Broadcast()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.serve(client)
	}
}

func (r *Relay) serve(client net.Conn) {
	defer client.Close()
	r.mu.Lock()
	target, refused := r.target, r.refused
	r.mu.Unlock()
	if refused {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	r.set(func() { r.open[client] = struct{}{} })
	defer r.set(func() { delete(r.open, client) })

	go r.copy(server, client)
	r.copy(client, server)
}

type chunk struct {
	due   time.Time
	bytes []byte
}

// copy moves bytes until one side is gone and what it said is delivered; then it closes both, so that the other direction
// ends too.
func (r *Relay) copy(to, from net.Conn) {
	queue := make(chan chunk, relayQueue)
	written := make(chan struct{})
	defer func() {
		close(queue)
		<-written
	}()
	go func() {
		defer close(written)
		defer to.Close()
		defer from.Close()
		for c := range queue {
			time.Sleep(time.Until(c.due))
			r.awaitSpeech()
			if _, err := to.Write(c.bytes); err != nil {
				from.Close()
				for range queue { // the reader must not stay blocked on a full queue
				}
				return
			}
		}
	}()
	for {
		buffer := make([]byte, relayChunk)
		n, err := from.Read(buffer)
		if n > 0 {
			r.mu.Lock()
			delay := r.delay
			r.mu.Unlock()
			queue <- chunk{time.Now().Add(delay), buffer[:n]}
		}
		if err != nil {
			return
		}
	}
}

func (r *Relay) awaitSpeech() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.silent {
		r.changed.Wait()
	}
}
