package cluster

import (
	"net"
	"time"
)

// Direction is one of the two ways through a relay.
type Direction int

// The directions, as seen from who connected.
const (
	ToServer Direction = iota
	ToClient
)

func (d Direction) String() string { return [...]string{"to the server", "to the client"}[d] }

// Link is all connections of one client through a relay, and what is done to them. A relay has one more that stands for
// all clients; the harm of both adds up.
type Link struct {
	Client string

	relay   *Relay
	refused bool
	silent  [2]bool
	delay   [2]time.Duration
	open    map[net.Conn]struct{}
	moved   [2]int // bytes
	harmed  int    // bytes that were held back or delayed
}

func (r *Relay) newLink(client string) *Link {
	return &Link{Client: client, relay: r, open: map[net.Conn]struct{}{}}
}

// Refuse makes the relay close the client's new connections at once, or take them again.
func (l *Link) Refuse(refused bool) { l.relay.set(func() { l.refused = refused }) }

// Silence holds back every byte of one direction until it is called with false.
func (l *Link) Silence(direction Direction, silent bool) {
	l.relay.set(func() { l.silent[direction] = silent })
}

// Delay makes every byte of both directions that much late.
func (l *Link) Delay(delay time.Duration) {
	l.relay.set(func() { l.delay = [2]time.Duration{delay, delay} })
}

// Heal takes all harm away.
func (l *Link) Heal() {
	l.relay.set(func() { l.refused, l.silent, l.delay = false, [2]bool{}, [2]time.Duration{} })
}

// Cut closes the client's open connections and says how many there were.
func (l *Link) Cut() int {
	l.relay.mu.Lock()
	defer l.relay.mu.Unlock()
	for connection := range l.open {
		connection.Close()
	}
	return len(l.open)
}

// Open is how many connections the client has.
func (l *Link) Open() int {
	l.relay.mu.Lock()
	defer l.relay.mu.Unlock()
	return len(l.open)
}

// Harmed is how many bytes were held back or delayed so far.
func (l *Link) Harmed() int {
	l.relay.mu.Lock()
	defer l.relay.mu.Unlock()
	return l.harmed
}

// Moved is how many bytes went in a direction so far.
func (l *Link) Moved(direction Direction) int {
	l.relay.mu.Lock()
	defer l.relay.mu.Unlock()
	return l.moved[direction]
}

// lateness is how much later n bytes have to arrive; they are counted.
func (l *Link) lateness(direction Direction, n int) time.Duration {
	l.relay.mu.Lock()
	defer l.relay.mu.Unlock()
	l.moved[direction] += n
	late := l.delay[direction] + l.relay.all.delay[direction]
	if late > 0 {
		l.harmed += n
	}
	return late
}

// awaitSpeech waits while the direction is silent.
func (l *Link) awaitSpeech(direction Direction, n int) {
	l.relay.mu.Lock()
	defer l.relay.mu.Unlock()
	if l.silent[direction] || l.relay.all.silent[direction] {
		l.harmed += n
	}
	for l.silent[direction] || l.relay.all.silent[direction] {
		l.relay.changed.Wait()
	}
}

func (l *Link) String() string { return l.Client + " through " + l.relay.Addr() }
