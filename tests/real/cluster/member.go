package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"weir.dev/tests/real/client"
)

// Member is one process of a fleet: a node (a replica of a shard) or a proxy. It keeps its addresses and arguments over
// all its lives.
type Member struct {
	Name  string // node-SHARD-REPLICA or proxy-NUMBER; the relays know it by this name
	Proxy bool
	Shard int // of a node

	fleet  *Fleet
	listen string
	admin  string
	relay  *Relay // in front of a node, if the fleet has relays
	args   []string

	mu      sync.Mutex
	process *Process
}

// drainLimit is how long a member that was asked to end may take: its own limit, and some more on a busy machine.
const drainLimit = 20 * time.Second

// Start runs the member with the arguments that it always has. It is not ready when Start returns.
func (m *Member) Start() error {
	process, err := start(command{name: m.fleet.name + "-" + m.Name, binary: weirBinary(), args: m.args, dir: m.fleet.cluster.Dir})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process = process
	return nil
}

// Restart ends the member at once if it runs, and starts it again.
func (m *Member) Restart() error {
	m.Kill()
	return m.Start()
}

// Process is the member's present life, or its last one.
func (m *Member) Process() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// Kill ends the member without notice (SIGKILL).
func (m *Member) Kill() {
	if process := m.Process(); process != nil {
		process.Kill()
	}
}

// Pause freezes the member (SIGSTOP).
func (m *Member) Pause() error { return m.Process().Stop() }

// Continue lets a paused member go on (SIGCONT).
func (m *Member) Continue() error { return m.Process().Continue() }

// Terminate asks the member to end (SIGTERM) and waits until it has; one that has to be killed is an error.
func (m *Member) Terminate() error {
	process := m.Process()
	if err := process.terminate(); err != nil {
		return err
	}
	select {
	case <-process.Done():
		return nil
	case <-time.After(drainLimit):
		process.Kill()
		return fmt.Errorf("%s: did not end within %s\n%s", m.Name, drainLimit, process.Tail())
	}
}

// Ready asks once whether the member can answer.
func (m *Member) Ready(ctx context.Context) error {
	status, body, err := ask(ctx, m.admin, "/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: /readyz: %d %s", m.Name, status, client.Excerpt(bytes.TrimSpace(body)))
	}
	return err
}

// AwaitReady waits until the member can answer; it fails at once when the process ends.
func (m *Member) AwaitReady(ctx context.Context, limit time.Duration) error {
	process := m.Process()
	err := poll(ctx, limit, func() error {
		select {
		case <-process.Done():
			return stop{errors.New("ended before it was ready")}
		default:
			return m.Ready(ctx)
		}
	})
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", m.Name, err, process.Tail())
	}
	return err
}

// Metrics reads what the member counts. Counters begin again with each life.
func (m *Member) Metrics(ctx context.Context) (Metrics, error) {
	metrics, err := readMetrics(ctx, m.admin)
	if err != nil {
		err = fmt.Errorf("%s: %w", m.Name, err)
	}
	return metrics, err
}

// Relay stands in front of a node; nil when the fleet has no relays.
func (m *Member) Relay() *Relay { return m.relay }

// From is the link of another member to this node.
func (m *Member) From(observer *Member) *Link { return m.relay.Link(observer.Name) }

// advertised is the address by which others know a node.
func (m *Member) advertised() string {
	if m.relay != nil {
		return m.relay.Addr()
	}
	return m.listen
}

// Endpoint is where clients reach a proxy.
func (m *Member) Endpoint() client.Endpoint {
	return client.Endpoint{Name: m.Name, URL: "https://" + m.listen, CA: m.fleet.cluster.pki.ca}
}
