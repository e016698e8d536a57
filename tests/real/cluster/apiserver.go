package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir.dev/tests/real/client"
)

// Instance is one kube-apiserver behind its relay. Its own address changes when it is started again; the relay's doesn't.
type Instance struct {
	Name  string
	Relay *Relay
	Audit string // the audit log, appended to by every life of the instance
	Store *Relay // between the instance and etcd; nil without Options.Lagging

	cluster *Cluster
	flags   []string
	process *Process
	address string
}

// startLimit bounds one start of one program; on a cold and busy machine an apiserver needs 20 s.
const startLimit = 90 * time.Second

// auditMegabytes is more than any run writes: a log that is begun anew at the default of 100 would hide what came before.
const auditMegabytes = "100000"

// auditPolicy logs who asked for what, once when an answer starts and once when it is complete.
const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}`

func (c *Cluster) newInstance(name string, flags ...string) (*Instance, error) {
	relay, err := NewRelay()
	if err != nil {
		return nil, err
	}
	return &Instance{
		Name:    name,
		Relay:   relay,
		Audit:   filepath.Join(c.Dir, name+".audit"),
		cluster: c,
		flags:   flags,
	}, nil
}

// Direct is the instance itself, past the relay.
func (i *Instance) Direct() client.Endpoint {
	return client.Endpoint{Name: i.Name, URL: "https://" + i.address, CA: i.cluster.pki.ca}
}

// Address is where the instance listens in this life.
func (i *Instance) Address() string { return i.address }

// Process is the running apiserver.
func (i *Instance) Process() *Process { return i.process }

// Start runs the instance on a free port and waits until it is ready. Another process may take the port in between, so
// a start that fails early is tried again.
func (i *Instance) Start(ctx context.Context) error {
	var err error
	for range 3 {
		if err = i.startOnce(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// Restart ends the instance without notice and starts it again. (Asked to end, it would keep its watches for 60 s.)
func (i *Instance) Restart(ctx context.Context) error {
	i.process.Kill()
	return i.Start(ctx)
}

func (i *Instance) startOnce(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	process, err := start(command{name: i.Name, binary: i.cluster.binary("kube-apiserver"), args: i.arguments(port), dir: i.cluster.Dir})
	if err != nil {
		return err
	}
	i.process, i.address = process, fmt.Sprintf("127.0.0.1:%d", port)
	if err := i.awaitReady(ctx); err != nil {
		process.Kill()
		return fmt.Errorf("%s: %w\n%s", i.Name, err, process.Tail())
	}
	i.Relay.Pin(i.address)
	if i.cluster.seeded {
		return i.warm(ctx)
	}
	return nil
}

// warm asks for each custom resource until it is served: an apiserver makes those caches on first use, ready or not, and
// refuses with 429 meanwhile.
func (i *Instance) warm(ctx context.Context) error {
	admin := client.New(i.Direct(), AdminToken, "weir-suite/start")
	defer admin.Close()
	for _, path := range []string{"/apis/metering.weir.test/v1/gauges", "/apis/metering.weir.test/v1/depots"} {
		err := poll(ctx, startLimit, func() error {
			answer, err := admin.Send(ctx, client.Request{Path: path})
			if err == nil && answer.Status != http.StatusOK {
				err = fmt.Errorf("%s: %s: %d", i.Name, path, answer.Status)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// storeURL is etcd as the instance sees it.
func (i *Instance) storeURL() string {
	if i.Store != nil {
		return "http://" + i.Store.Addr()
	}
	return i.cluster.etcdURL
}

func (i *Instance) arguments(port int) []string {
	file := i.cluster.pki.file
	args := []string{
		"--etcd-servers", i.storeURL(),
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port),
		"--tls-cert-file", file("server.crt"), "--tls-private-key-file", file("server.key"),
		"--client-ca-file", file("ca.crt"),
		"--token-auth-file", i.cluster.file("tokens.csv"),
		"--audit-policy-file", i.cluster.file("audit-policy.json"),
		"--audit-log-path", i.Audit, "--audit-log-mode", "blocking", "--audit-log-maxsize", auditMegabytes,
		"--service-account-issuer", "https://localhost",
		"--service-account-signing-key-file", file("sa.key"), "--service-account-key-file", file("sa.key"),
		"--service-cluster-ip-range", "10.0.0.0/16",
		"--requestheader-client-ca-file", file("front-proxy-ca.crt"), "--requestheader-allowed-names", "proxy",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-", "--requestheader-uid-headers", "X-Remote-Uid",
		// No controller makes default service accounts here, and pods must be creatable all the same.
		"--disable-admission-plugins", "ServiceAccount",
		"--endpoint-reconciler-type", "none",
		"--max-requests-inflight", "4000", "--max-mutating-requests-inflight", "2000",
	}
	args = append(args, i.cluster.authorization()...)
	return append(args, i.flags...)
}

// authorization names the authorizers.
func (c *Cluster) authorization() []string {
	if c.options.Authorization == "" {
		return []string{"--authorization-mode", "Node,RBAC"}
	}
	return []string{"--authorization-config", c.file("authorization.yaml")}
}

func (i *Instance) awaitReady(ctx context.Context) error {
	admin := client.New(i.Direct(), AdminToken, "weir-suite/start")
	defer admin.Close()
	return poll(ctx, startLimit, func() error {
		select {
		case <-i.process.Done():
			return stop{errors.New("ended while it started")}
		default:
		}
		answer, err := admin.Send(ctx, client.Request{Path: "/readyz"})
		if err != nil {
			return err
		}
		if answer.Status != http.StatusOK {
			return fmt.Errorf("/readyz: %d", answer.Status)
		}
		return nil
	})
}

// stop is an error that ends a poll.
type stop struct{ error }

// poll repeats an attempt until it succeeds, at most for the limit; the last failure is the answer.
func poll(ctx context.Context, limit time.Duration, attempt func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := attempt()
		if err == nil || errors.As(err, new(stop)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-tick.C:
		}
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// binary is the path of a program that build.sh made.
func (c *Cluster) binary(name string) string { return filepath.Join(c.bin, name) }

// file is a path in the cluster's directory.
func (c *Cluster) file(name string) string { return filepath.Join(c.Dir, name) }

func (c *Cluster) writeConfiguration() error {
	tokens := []string{
		AdminToken + `,admin,1,"system:masters"`,
		WeirToken + `,weir,2,"system:masters"`,
		BobToken + `,bob,3,"devs"`,
		ReaderToken + `,reader,4,"readers"`,
	}
	tokens = append(tokens, c.options.Callers...)
	if err := os.WriteFile(c.file("authorization.yaml"), []byte(c.options.Authorization), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(c.file("tokens.csv"), []byte(strings.Join(tokens, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.file("audit-policy.json"), []byte(auditPolicy), 0o600)
}
