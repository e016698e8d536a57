// Package cluster starts a real control plane on loopback: etcd, kube-apiservers on it, each behind a relay, and weir in
// front of the relays. Two apiservers are the default because most wrong designs work with one: each has a cache of its
// own, at its own progress.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"weir.dev/tests/real/client"
)

// Tokens of the users that every apiserver knows. Admin and Weir are of system:masters under different names, so that
// the audit log can tell them apart; Reader may read everything; Bob may nothing.
const (
	AdminToken  = "suite-admin"
	WeirToken   = "suite-weir"
	ReaderToken = "suite-reader"
	BobToken    = "suite-bob"
)

// Options decide what a cluster is made of.
type Options struct {
	// Mirrors are what weir is told to mirror from the start.
	Mirrors []string
	// Topology says of which processes weir is made.
	Topology Topology
	// Gated adds an apiserver that weir doesn't know, with the shard selector feature on.
	Gated bool
	// Plain puts the gated apiserver in weir's place: the suite then judges itself.
	Plain bool
	// Fault names the lie that the apiserver in weir's place tells; see Faults.
	Fault string
	// Lagging puts a relay between instance A and etcd, Instance.Store, so that A can be made to lag behind B.
	Lagging bool
	// Backup keeps a copy of etcd's data from before weir started, for Restore.
	Backup bool
	// Bare leaves weir out; the caller starts it, with what it wants to be there before.
	Bare bool
	// Lone makes one apiserver, which is both A and B, for tests of what no second one can change.
	Lone bool
	// Callers are more lines of the apiservers' file of tokens: token,name,uid,"group,…".
	Callers []string
	// Authorization is an AuthorizationConfiguration in the place of the authorizers Node and RBAC.
	Authorization string
}

// Cluster is a running control plane with weir in front.
type Cluster struct {
	Dir string
	// Instances are all apiservers: A and B, which weir reads from, then the gated one if there is one.
	Instances []*Instance
	A, B      *Instance
	Gated     *Instance
	// Weir is what the suite judges; nil when the cluster is bare.
	Weir *Weir

	bin     string
	pki     *pki
	etcd    *Process
	etcdURL string
	options Options
	seeded  bool
}

// Start brings everything up; what runs when it fails has been ended.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	bin, err := build(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-real-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, bin: bin, options: options}
	if err := c.start(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.pki, err = makePKI(c.file("pki")); err != nil {
		return err
	}
	if err := c.writeConfiguration(); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.addInstances(); err != nil {
		return err
	}
	// The first apiserver makes what a new cluster needs; started together they would wait for each other's work.
	if err := c.startInstances(ctx, c.Instances[:1]); err != nil {
		return err
	}
	group, sub := errgroup.WithContext(ctx)
	group.Go(func() error { return c.seed(sub) })
	group.Go(func() error { return c.startInstances(sub, c.Instances[1:]) })
	if err := group.Wait(); err != nil {
		return err
	}
	c.seeded = true
	for _, instance := range c.Instances {
		if err := instance.warm(ctx); err != nil {
			return err
		}
	}
	if c.options.Backup {
		if err := c.saveData(ctx); err != nil {
			return err
		}
	}
	if c.options.Bare {
		return nil
	}
	c.Weir, err = c.StartAs(ctx, "weir", c.options.Topology, c.options.Mirrors)
	return err
}

func (c *Cluster) addInstances() error {
	var err error
	if c.A, err = c.newInstance("a"); err != nil {
		return err
	}
	c.B, c.Instances = c.A, []*Instance{c.A}
	if !c.options.Lone {
		if c.B, err = c.newInstance("b"); err != nil {
			return err
		}
		c.Instances = append(c.Instances, c.B)
	}
	if c.options.Lagging {
		if c.A.Store, err = NewRelay(); err != nil {
			return err
		}
		c.A.Store.Pin(strings.TrimPrefix(c.etcdURL, "http://"))
	}
	if !c.options.Gated && !c.options.Plain {
		return nil
	}
	if c.Gated, err = c.newInstance("gated", "--feature-gates", "ShardedListAndWatch=true"); err != nil {
		return err
	}
	c.Instances = append(c.Instances, c.Gated)
	return nil
}

func (c *Cluster) startInstances(ctx context.Context, instances []*Instance) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, instance := range instances {
		group.Go(func() error { return instance.Start(ctx) })
	}
	return group.Wait()
}

// Close ends every process by its number and removes the directory, unless WEIR_KEEP is set.
func (c *Cluster) Close() {
	if c.Weir != nil {
		c.Weir.close()
	}
	for _, instance := range c.Instances {
		if instance.process != nil {
			instance.process.Kill()
		}
		instance.Relay.Close()
		if instance.Store != nil {
			instance.Store.Close()
		}
	}
	if c.etcd != nil {
		c.etcd.Kill()
	}
	if os.Getenv("WEIR_KEEP") == "" {
		os.RemoveAll(c.Dir)
	}
}

// Upstream is a client of the instance that the suite's own reads and writes go to; it is never disturbed on purpose.
func (c *Cluster) Upstream(token, agent string) *client.Client {
	return client.New(c.B.Direct(), token, agent)
}

// Kubectl is the real kubectl's command with a kubeconfig for an endpoint, its requests made by the admin.
func (c *Cluster) Kubectl(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, c.binary("kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	command.Env = append(os.Environ(), "HOME="+c.Dir)
	return command
}

// WriteKubeconfig writes a kubeconfig for an endpoint and a token, and returns its path.
func (c *Cluster) WriteKubeconfig(name string, endpoint client.Endpoint, token string) (string, error) {
	authority := c.file(name + ".ca")
	if err := os.WriteFile(authority, endpoint.CA, 0o600); err != nil {
		return "", err
	}
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: suite, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: caller, user: {token: %q}}]
contexts: [{name: suite, context: {cluster: suite, user: caller}}]
current-context: suite
`, endpoint.URL, authority, token)
	path := c.file(name + ".kubeconfig")
	return path, os.WriteFile(path, []byte(config), 0o600)
}

// Root is the directory of this Go module.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
	return "", errors.New("not inside the module")
}

// build makes the programs, or finds them made, and returns their directory.
func build(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, filepath.Join(root, "build.sh"))
	command.Stderr = os.Stderr
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}
