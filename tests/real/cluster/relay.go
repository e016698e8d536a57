package cluster

import (
	"net"
	"sync"
	"time"
)

// Relay is a TCP relay in front of one server: what its clients take for the server's address. It can move to another
// target, cut, refuse, silence and delay connections, of all clients or of one Link. A silenced connection stays open, as
// when a route was lost.
type Relay struct {
	listener net.Listener

	mu       sync.Mutex
	changed  *sync.Cond
	identify func(net.Conn) string // nil: all connections are of one link
	target   string
	all      *Link
	links    map[string]*Link
}

// relayChunk is what is read at once; relayQueue × relayChunk = 4 MiB is what a delayed direction may hold.
const (
	relayChunk = 32 << 10
	relayQueue = 128
)

// NewRelay listens on a free port of the loopback.
func NewRelay() (*Relay, error) { return listenRelay("127.0.0.1:0", nil) }

// listenRelay listens at an address; identify names who is at the other end of a connection.
func listenRelay(address string, identify func(net.Conn) string) (*Relay, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: listener, identify: identify, links: map[string]*Link{}}
	r.changed = sync.NewCond(&r.mu)
	r.all = r.newLink("")
	go r.accept()
	return r, nil
}

// Addr is the relay's own address.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Pin sends new connections to a target; open ones stay where they are.
func (r *Relay) Pin(target string) { r.set(func() { r.target = target }) }

// Identify says how new connections are told apart.
func (r *Relay) Identify(identify func(net.Conn) string) { r.set(func() { r.identify = identify }) }

// Refuse makes the relay close new connections at once, or take them again.
func (r *Relay) Refuse(refused bool) { r.all.Refuse(refused) }

// Silence holds back every byte in both directions until it is called with false.
func (r *Relay) Silence(silent bool) {
	r.all.Silence(ToServer, silent)
	r.all.Silence(ToClient, silent)
}

// Delay makes every byte of both directions that much late.
func (r *Relay) Delay(delay time.Duration) { r.all.Delay(delay) }

// Cut closes all open connections and says how many there were.
func (r *Relay) Cut() int {
	cut := 0
	for _, link := range r.Links() {
		cut += link.Cut()
	}
	return cut
}

// Close ends the relay and its connections.
func (r *Relay) Close() {
	r.listener.Close()
	for _, link := range append(r.Links(), r.all) {
		link.Heal()
	}
	r.Cut()
}

// Link is the relay's side of one client, who need not be connected now.
func (r *Relay) Link(client string) *Link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link(client)
}

func (r *Relay) link(client string) *Link {
	if r.links[client] == nil {
		r.links[client] = r.newLink(client)
	}
	return r.links[client]
}

// Links are those of all clients so far.
func (r *Relay) Links() []*Link {
	r.mu.Lock()
	defer r.mu.Unlock()
	var links []*Link
	for _, link := range r.links {
		links = append(links, link)
	}
	return links
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
	identify := r.identify
	r.mu.Unlock()
	name := ""
	if identify != nil {
		name = identify(client)
	}
	r.mu.Lock()
	link, target := r.link(name), r.target
	refused := link.refused || r.all.refused
	r.mu.Unlock()
	if refused {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	r.set(func() { link.open[client] = struct{}{} })
	defer r.set(func() { delete(link.open, client) })

	go link.copy(ToServer, server, client)
	link.copy(ToClient, client, server)
}

type chunk struct {
	due   time.Time
	bytes []byte
}

// copy moves bytes until one side is gone and what it said is delivered; then it closes both, so that the other direction
// ends too.
func (l *Link) copy(direction Direction, to, from net.Conn) {
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
			l.awaitSpeech(direction, len(c.bytes))
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
			queue <- chunk{time.Now().Add(l.lateness(direction, n)), buffer[:n]}
		}
		if err != nil {
			return
		}
	}
}
