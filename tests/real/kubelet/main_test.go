package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
)

var (
	// plane is the control plane of this run, with weir in front.
	plane *cluster.Cluster
	// backend is the kubelet of its one node.
	backend *Kubelet

	serial atomic.Int64
)

const (
	node  = "backend"
	space = "default"
	// patience is far more than anything here takes that is not broken.
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{})
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	if plane, err = cluster.Start(ctx, cluster.Options{Mirrors: []string{"configmaps"}, Plain: modes.IsPlain()}); err != nil {
		fmt.Fprintln(os.Stderr, "start of the control plane:", err)
		return 1
	}
	defer plane.Close()
	backend = New(plane.Dir)
	defer backend.Close()
	admin := plane.Upstream(cluster.AdminToken, "kubelet-suite")
	defer admin.Close()
	if _, err := admin.Write(ctx, http.MethodPost, "/api/v1/nodes", []byte(backend.Node(node))); err != nil {
		fmt.Fprintln(os.Stderr, "the node of the kubelet:", err)
		return 1
	}
	return m.Run()
}

// caller is a client of weir with the admin's rights.
func caller(t testing.TB) *client.Client {
	c := client.New(plane.Weir.Endpoint(0), cluster.AdminToken, fmt.Sprintf("kubelet-suite-%d/%s", serial.Add(1), t.Name()))
	t.Cleanup(c.Close)
	return c
}

// direct is a client of upstream itself.
func direct(t testing.TB) *client.Client {
	c := plane.Upstream(cluster.AdminToken, fmt.Sprintf("kubelet-suite-direct-%d/%s", serial.Add(1), t.Name()))
	t.Cleanup(c.Close)
	return c
}

// pod makes a pod that runs on the node and returns its name and its path.
func pod(t testing.TB) (name, path string) {
	t.Helper()
	admin := direct(t)
	name = fmt.Sprintf("p%d", serial.Add(1))
	const all = "/api/v1/namespaces/" + space + "/pods"
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"nodeName":%q,"containers":[{"name":"main","image":"none","stdin":true}]}}`, name, node)
	if _, err := admin.Write(t.Context(), http.MethodPost, all, []byte(body)); err != nil {
		t.Fatal(err)
	}
	const running = `{"status":{"phase":"Running"}}`
	if _, err := admin.Write(t.Context(), http.MethodPatch, all+"/"+name+"/status", []byte(running)); err != nil {
		t.Fatal(err)
	}
	return name, all + "/" + name
}

// kubectl runs the real kubectl through weir.
type kubectl struct {
	t          testing.TB
	kubeconfig string
	env        []string
}

// transports are the two ways in which kubectl streams, and the verb by which upstream's log tells them apart.
var transports = []struct {
	name, verb string
	env        []string
}{
	{"WebSocket", "get", []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"}},
	{"SPDY", "create", []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"}},
}

func kubectlWith(t testing.TB, env []string) kubectl {
	t.Helper()
	path, err := plane.WriteKubeconfig(fmt.Sprintf("kubectl-%d", serial.Add(1)), plane.Weir.Endpoint(0), cluster.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	return kubectl{t, path, env}
}

// command is one whose end the caller waits for.
func (k kubectl) command(ctx context.Context, words ...string) *exec.Cmd {
	command := plane.Kubectl(ctx, k.kubeconfig, append([]string{"-n", space}, words...)...)
	command.Env = append(command.Env, k.env...)
	return command
}

// run gives input to kubectl; what it printed, what it complained of, and how it ended.
func (k kubectl) run(input string, words ...string) (string, string, error) {
	ctx, cancel := context.WithTimeout(k.t.Context(), 4*patience)
	defer cancel()
	command := k.command(ctx, words...)
	command.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	return stdout.String(), stderr.String(), err
}

// must is run for a command that has to succeed.
func (k kubectl) must(input string, words ...string) string {
	k.t.Helper()
	out, complaints, err := k.run(input, words...)
	if err != nil {
		k.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(words, " "), err, out, complaints)
	}
	return out
}
