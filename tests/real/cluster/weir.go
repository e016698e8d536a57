package cluster

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"weir.dev/tests/real/client"
)

// Weir is the server that the suite judges: weir, or the apiserver that stands in for it.
type Weir struct {
	// Endpoints are where it is reached: one, or that of each proxy.
	Endpoints []client.Endpoint
	// Fleet is set when weir is many processes.
	Fleet *Fleet
	// Plain says that it is an apiserver: nothing can be asked of who answered.
	Plain bool
	// Audit is the log of what it answered itself; "" when it has none.
	Audit string

	process *Process // nil when Plain, and when weir is many
	admin   string   // "" when it answers no questions about itself
}

// serving is what one process of weir is started with.
type serving struct {
	name      string
	mirrors   []string
	upstreams []client.Endpoint
	admin     string // "" for none
	// kubeconfig is whose identity it has: "" for that of the token Weir.
	kubeconfig string
	// certificate is the name of the listener's own in the cluster's PKI, with which it listens on every address; "" for none.
	certificate string
}

// smallest is the topology of a weir beside the main one: a process of each role, and more than one shard.
var smallest = Topology{Shards: 2, Replicas: 1, Proxies: 1}

// readyLine starts the one line that weir prints when it listens and its mirrors are ready.
const readyLine = "ready: "

// weirLimit bounds weir's start, with mirrors of what the seed made.
const weirLimit = 60 * time.Second

// StartWeir starts one more weir in front of the same apiservers; the caller ends it. What stands in for weir is shared.
func (c *Cluster) StartWeir(ctx context.Context, name string, mirrors []string) (*Weir, error) {
	topology := c.options.Topology
	if topology.Shards > 0 {
		topology = smallest
	}
	return c.StartAs(ctx, name, topology, mirrors)
}

// StartAs is StartWeir with a topology of its own.
func (c *Cluster) StartAs(ctx context.Context, name string, topology Topology, mirrors []string) (*Weir, error) {
	if c.options.Plain {
		return c.standIn()
	}
	if topology.Shards == 0 {
		return c.startServe(ctx, serving{name: name, mirrors: mirrors, upstreams: c.behindRelays()})
	}
	fleet, err := c.StartFleet(ctx, name, topology, mirrors)
	if err != nil {
		return nil, err
	}
	w := &Weir{Fleet: fleet}
	for _, proxy := range fleet.Proxies {
		w.Endpoints = append(w.Endpoints, proxy.Endpoint())
	}
	return w, nil
}

// StartOwn starts one process of weir whose identity is what a kubeconfig shows.
func (c *Cluster) StartOwn(ctx context.Context, name, kubeconfig string, mirrors []string) (*Weir, error) {
	return c.startServe(ctx, serving{name: name, mirrors: mirrors, upstreams: c.behindRelays(), kubeconfig: kubeconfig})
}

// behindRelays are the instances that weir reads from, as it sees them.
func (c *Cluster) behindRelays() []client.Endpoint {
	behind := []client.Endpoint{c.A.behindRelay()}
	if c.B != c.A {
		behind = append(behind, c.B.behindRelay())
	}
	return behind
}

// StartMeasured starts one process of weir that reaches the apiservers past the relays, which would be part of every figure,
// and that tells what it counts.
func (c *Cluster) StartMeasured(ctx context.Context, name string, mirrors []string) (*Weir, error) {
	port, err := keptPort()
	if err != nil {
		return nil, err
	}
	direct := []client.Endpoint{c.A.Direct(), c.B.Direct()}
	return c.startServe(ctx, serving{name: name, mirrors: mirrors, upstreams: direct, admin: address(port)})
}

// StartEverywhere starts one process of weir that listens on every address with a certificate of its own, which Reissue
// replaces.
func (c *Cluster) StartEverywhere(ctx context.Context, name string, mirrors []string) (*Weir, error) {
	if err := c.Reissue(name); err != nil {
		return nil, err
	}
	behind := []client.Endpoint{c.A.behindRelay(), c.B.behindRelay()}
	return c.startServe(ctx, serving{name: name, mirrors: mirrors, upstreams: behind, certificate: name})
}

func (c *Cluster) startServe(ctx context.Context, s serving) (*Weir, error) {
	kubeconfig := s.kubeconfig
	if kubeconfig == "" {
		var err error
		if kubeconfig, err = c.WriteKubeconfig(s.name+"-upstream", s.upstreams[0], WeirToken); err != nil {
			return nil, err
		}
	}
	written := c.file(s.name + "-clients.kubeconfig")
	args := []string{
		"serve", "--kubeconfig", kubeconfig,
		"--write-kubeconfig", written,
		"--audit-log-path", c.file(s.name + "-weir.audit"),
	}
	if s.certificate == "" {
		args = append(args, "--listen", "127.0.0.1:0")
	} else {
		file := c.pki.file(s.certificate)
		args = append(args, "--listen", "0.0.0.0:0", "--tls-cert-file", file+".crt", "--tls-private-key-file", file+".key")
	}
	args = append(args, c.pki.certificateArguments()...)
	if len(s.mirrors) > 0 {
		args = append(args, "--mirror", strings.Join(s.mirrors, ","))
	}
	for _, upstream := range s.upstreams {
		args = append(args, "--upstream", upstream.URL)
	}
	if s.admin != "" {
		args = append(args, "--admin", s.admin)
	}
	reader, writer := io.Pipe()
	process, err := start(command{name: s.name, binary: weirBinary(), dir: c.Dir, stdout: writer, args: args})
	if err != nil {
		return nil, err
	}
	w := &Weir{process: process, admin: s.admin, Audit: c.file(s.name + "-weir.audit")}
	if err := awaitLine(ctx, process, reader); err != nil {
		process.Kill()
		return nil, fmt.Errorf("%s: %w\n%s", s.name, err, process.Tail())
	}
	endpoint, err := readEndpoint(written)
	if err != nil {
		process.Kill()
		return nil, err
	}
	if s.certificate != "" {
		endpoint.URL, endpoint.CA = strings.Replace(endpoint.URL, "0.0.0.0", "127.0.0.1", 1), c.pki.ca
	}
	w.Endpoints = []client.Endpoint{endpoint}
	return w, nil
}

// standIn is an apiserver in weir's place, or a liar in front of one.
func (c *Cluster) standIn() (*Weir, error) {
	endpoint := c.Gated.behindRelay()
	if c.options.Fault != "" {
		var err error
		if endpoint, err = c.serveFault(c.options.Fault, endpoint); err != nil {
			return nil, err
		}
	}
	return &Weir{Endpoints: []client.Endpoint{endpoint}, Plain: true}, nil
}

// behindRelay is the instance as weir sees it.
func (i *Instance) behindRelay() client.Endpoint {
	return client.Endpoint{Name: i.Name, URL: "https://" + i.Relay.Addr(), CA: i.cluster.pki.ca}
}

// Process is the one process of weir; nil when an apiserver stands in its place, and when weir is many.
func (w *Weir) Process() *Process { return w.process }

// Metrics reads what a weir counts that was started to be measured.
func (w *Weir) Metrics(ctx context.Context) (Metrics, error) { return readMetrics(ctx, w.admin) }

// Endpoint is one of the endpoints, taken in turn.
func (w *Weir) Endpoint(turn int) client.Endpoint { return w.Endpoints[turn%len(w.Endpoints)] }

// Kill ends weir without notice: all of it, where it is many processes.
func (w *Weir) Kill() {
	if w.process != nil {
		w.process.Kill()
	}
	if w.Fleet != nil {
		w.Fleet.Close()
	}
}

func (w *Weir) close() {
	if w.process != nil {
		const grace = 5 * time.Second
		w.process.End(grace)
	}
	if w.Fleet != nil {
		w.Fleet.Close()
	}
}

// WeirCommand is a command of weir that ends by itself.
func (c *Cluster) WeirCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, weirBinary(), args...)
}

func weirBinary() string {
	if path := os.Getenv("WEIR_BIN"); path != "" {
		return path
	}
	root, err := Root()
	if err != nil {
		return "weir"
	}
	return filepath.Join(root, "../../target/debug/weir")
}

// awaitLine waits for the ready line, and goes on reading afterwards so that the process never blocks on its stdout.
func awaitLine(ctx context.Context, process *Process, stdout io.Reader) error {
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stdout)
		seen := false
		for lines.Scan() {
			if !seen && strings.HasPrefix(lines.Text(), readyLine) {
				seen = true
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
		return nil
	case <-process.Done():
		return errors.New("ended before it was ready")
	case <-time.After(weirLimit):
		return fmt.Errorf("no line %q within %s", readyLine, weirLimit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readEndpoint reads the server and its authority from a kubeconfig.
func readEndpoint(path string) (client.Endpoint, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return client.Endpoint{}, err
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				Data   string `json:"certificate-authority-data"`
				File   string `json:"certificate-authority"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return client.Endpoint{}, err
	}
	if len(config.Clusters) == 0 {
		return client.Endpoint{}, fmt.Errorf("%s names no cluster", path)
	}
	found := config.Clusters[0].Cluster
	endpoint := client.Endpoint{Name: "weir", URL: strings.TrimSuffix(found.Server, "/")}
	if found.File != "" {
		endpoint.CA, err = os.ReadFile(found.File)
	} else {
		endpoint.CA, err = base64.StdEncoding.DecodeString(found.Data)
	}
	return endpoint, err
}
