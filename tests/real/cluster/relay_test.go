package cluster

import (
	"bufio"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a server that sends every line back, and counts them.
func echo(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	var lines atomic.Int64
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				for reader := bufio.NewReader(connection); ; {
					line, err := reader.ReadString('\n')
					if err != nil {
						return
					}
					lines.Add(1)
					if _, err := connection.Write([]byte(line)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), &lines
}

// caller is one client behind a relay.
type caller struct {
	t *testing.T
	net.Conn
}

func (c caller) say() {
	c.t.Helper()
	if _, err := c.Write([]byte("x\n")); err != nil {
		c.t.Fatal(err)
	}
}

// hears says whether an answer comes within a time.
func (c caller) hears(within time.Duration) bool {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	n, err := c.Read(make([]byte, 2))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return n > 0
}

const (
	soon  = 10 * time.Second
	aLull = 200 * time.Millisecond
)

// twoCallers connects two clients, whom the relay tells apart by the order in which they come.
func twoCallers(t *testing.T) (*Relay, *atomic.Int64, [2]caller) {
	t.Helper()
	var callers atomic.Int64
	relay, err := listenRelay("127.0.0.1:0", func(net.Conn) string { return [...]string{"one", "other"}[callers.Add(1)-1] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Close)
	target, lines := echo(t)
	relay.Pin(target)
	var both [2]caller
	for i := range both {
		connection, err := net.Dial("tcp", relay.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		both[i] = caller{t, connection}
		both[i].say()
		if !both[i].hears(soon) {
			t.Fatal("the relay relays nothing")
		}
	}
	return relay, lines, both
}

func TestOneDirectionOfOneLinkIsSilenced(t *testing.T) {
	relay, lines, both := twoCallers(t)
	link := relay.Link("one")
	before := lines.Load()
	link.Silence(ToClient, true)
	both[0].say()
	if both[0].hears(aLull) {
		t.Error("a silenced answer came")
	}
	err := poll(t.Context(), soon, func() error {
		if lines.Load() != before+1 {
			return errors.New("the other direction is silent too")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	both[1].say()
	if !both[1].hears(soon) {
		t.Error("the other link is silent too")
	}
	link.Heal()
	if !both[0].hears(soon) || link.Harmed() != 2 {
		t.Errorf("the answer did not come afterwards, or %d bytes were held instead of 2", link.Harmed())
	}
	link.Silence(ToServer, true)
	before = lines.Load()
	both[0].say()
	if both[0].hears(aLull) || lines.Load() != before {
		t.Error("a silenced question arrived")
	}
}

func TestOneLinkIsCut(t *testing.T) {
	relay, _, both := twoCallers(t)
	if n := relay.Link("one").Cut(); n != 1 {
		t.Errorf("%d connections were cut, want 1", n)
	}
	if both[0].hears(soon) {
		t.Error("a cut connection says something")
	}
	both[1].say()
	if !both[1].hears(soon) {
		t.Error("the other link was cut too")
	}
}

func TestOneLinkIsLate(t *testing.T) {
	relay, _, both := twoCallers(t)
	relay.Link("one").Delay(aLull)
	asked := time.Now()
	both[0].say()
	if !both[0].hears(soon) {
		t.Fatal("nothing came")
	}
	if took := time.Since(asked); took < 2*aLull {
		t.Errorf("question and answer took %s, want at least %s", took, 2*aLull)
	}
}
