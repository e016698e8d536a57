package cluster

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Topology says of which processes weir is made. The zero value is the one process of `weir serve`.
type Topology struct {
	Shards, Replicas, Proxies int
	// Relays puts a relay in front of each node, and tells the apiservers' relays who is who, so that the link between any
	// two processes can be harmed.
	Relays bool
	// Sees says whether an observer is told of a node; nil: each is told of all.
	Sees func(observer, node *Member) bool
}

// Processes is how many there are.
func (t Topology) Processes() int { return t.Shards*t.Replicas + t.Proxies }

// Fleet is weir as many processes.
type Fleet struct {
	Nodes   []*Member // by shard, then by replica
	Proxies []*Member

	name     string
	cluster  *Cluster
	topology Topology
	mirrors  []string
	upstream string // kubeconfig
}

// fleetDrain is the drain time of every proxy: short, because each test that ends one waits for it.
const fleetDrain = 3 * time.Second

// StartFleet starts weir as many processes in front of the same apiservers and waits until each is ready; the caller closes it.
func (c *Cluster) StartFleet(ctx context.Context, name string, topology Topology, mirrors []string) (*Fleet, error) {
	f := &Fleet{name: name, cluster: c, topology: topology, mirrors: mirrors}
	if err := f.prepare(ctx); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, member := range f.Members() {
		if err := member.Start(); err != nil {
			f.Close()
			return nil, err
		}
	}
	if err := f.AwaitReady(ctx); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// prepare makes the certificates, the members and their relays, and then the arguments, which name all of them.
func (f *Fleet) prepare(ctx context.Context) error {
	var err error
	if f.upstream, err = f.cluster.WriteKubeconfig(f.name+"-upstream", f.cluster.A.behindRelay(), WeirToken); err != nil {
		return err
	}
	certs := exec.CommandContext(ctx, weirBinary(), "certs", "--out", f.certificate(""), "--shards", fmt.Sprint(f.topology.Shards))
	if out, err := certs.CombinedOutput(); err != nil {
		return fmt.Errorf("weir certs: %w\n%s", err, out)
	}
	for shard := range f.topology.Shards {
		for replica := range f.topology.Replicas {
			node := &Member{Name: fmt.Sprintf("node-%d-%d", shard, replica), Shard: shard}
			if err := f.add(node); err != nil {
				return err
			}
			f.Nodes = append(f.Nodes, node)
		}
	}
	for number := range f.topology.Proxies {
		proxy := &Member{Name: fmt.Sprintf("proxy-%d", number), Proxy: true}
		if err := f.add(proxy); err != nil {
			return err
		}
		f.Proxies = append(f.Proxies, proxy)
	}
	if f.topology.Relays {
		for _, instance := range f.cluster.Instances {
			instance.Relay.Identify(f.owner)
		}
	}
	for _, member := range f.Members() {
		member.args = f.arguments(member)
	}
	return nil
}

func (f *Fleet) add(m *Member) error {
	m.fleet = f
	for _, field := range []*string{&m.listen, &m.admin} {
		port, err := keptPort()
		if err != nil {
			return err
		}
		*field = address(port)
	}
	if m.Proxy || !f.topology.Relays {
		return nil
	}
	port, err := keptPort()
	if err != nil {
		return err
	}
	if m.relay, err = listenRelay(address(port), f.owner); err == nil {
		m.relay.Pin(m.listen)
	}
	return err
}

// owner names the member at the other end of a connection.
func (f *Fleet) owner(connection net.Conn) string {
	processes := map[string]int{}
	for _, member := range f.Members() {
		if process := member.Process(); process != nil {
			processes[member.Name] = process.PID()
		}
	}
	return owner(connection, processes)
}

func (f *Fleet) certificate(name string) string {
	return filepath.Join(f.cluster.file(f.name+"-certs"), name)
}

func (f *Fleet) arguments(m *Member) []string {
	role, identity := "proxy", "proxy"
	if !m.Proxy {
		role, identity = "shard", fmt.Sprintf("shard-%d", m.Shard)
	}
	args := []string{role, "--listen", m.listen, "--admin", m.admin,
		"--peer-ca", f.certificate("ca.crt"),
		"--peer-cert", f.certificate(identity + ".crt"), "--peer-key", f.certificate(identity + ".key"),
		"--kubeconfig", f.upstream,
		"--upstream", f.cluster.A.behindRelay().URL, "--upstream", f.cluster.B.behindRelay().URL,
	}
	if len(f.mirrors) > 0 {
		args = append(args, "--mirror", strings.Join(f.mirrors, ","))
	}
	if m.Proxy {
		// A certificate of its own making would be another after each restart.
		args = append(args, "--tls-cert-file", f.cluster.pki.file("server.crt"), "--tls-private-key-file", f.cluster.pki.file("server.key"),
			"--drain", fleetDrain.String())
		args = append(args, f.cluster.pki.certificateArguments()...)
	} else {
		args = append(args, "--shard", f.place(m), "--advertise", m.advertised())
	}
	for _, node := range f.Nodes {
		if f.topology.Sees == nil || f.topology.Sees(m, node) {
			args = append(args, "--node", f.place(node)+"="+node.advertised())
		}
	}
	return args
}

// place is a node's shard as the command line writes it.
func (f *Fleet) place(node *Member) string {
	return fmt.Sprintf("%d/%d", node.Shard, f.topology.Shards)
}

// Members are all processes, nodes first.
func (f *Fleet) Members() []*Member { return slices.Concat(f.Nodes, f.Proxies) }

// Node is one replica of one shard.
func (f *Fleet) Node(shard, replica int) *Member { return f.Nodes[shard*f.topology.Replicas+replica] }

// Replicas are all nodes of a shard.
func (f *Fleet) Replicas(shard int) []*Member {
	return f.Nodes[shard*f.topology.Replicas : (shard+1)*f.topology.Replicas]
}

// AwaitReady waits until every process can answer.
func (f *Fleet) AwaitReady(ctx context.Context) error {
	group, sub := errgroup.WithContext(ctx)
	for _, member := range f.Members() {
		group.Go(func() error { return member.AwaitReady(sub, weirLimit) })
	}
	return group.Wait()
}

// Kill ends all processes at once, without notice.
func (f *Fleet) Kill() {
	var group errgroup.Group
	for _, member := range f.Members() {
		group.Go(func() error {
			member.Kill()
			return nil
		})
	}
	_ = group.Wait() // nothing in it can fail
}

// Close ends all processes and relays.
func (f *Fleet) Close() {
	f.Kill()
	for _, node := range f.Nodes {
		if node.relay != nil {
			node.relay.Close()
		}
	}
}
