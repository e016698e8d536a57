package suite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// kubectl runs the real kubectl against an endpoint and returns what it printed.
type kubectl struct {
	t          *testing.T
	kubeconfig string
}

func kubectlFor(t *testing.T, endpoint client.Endpoint) kubectl {
	t.Helper()
	path, err := plane.WriteKubeconfig(fmt.Sprintf("kubectl-%d", serial.Add(1)), endpoint, cluster.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	return kubectl{t, path}
}

func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	return plane.Kubectl(ctx, k.kubeconfig, args...)
}

// run gives input to kubectl and expects it to succeed.
func (k kubectl) run(input string, args ...string) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	command := k.command(ctx, args...)
	command.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		k.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// follow starts a kubectl that goes on and returns its lines.
func (k kubectl) follow(args ...string) *bufio.Reader {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.t.Context())
	command := k.command(ctx, args...)
	out, err := command.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		cancel()
		_ = command.Wait() // it was killed
	})
	return bufio.NewReader(out)
}

// TestKubectlReadsTheSameThroughWeir compares what kubectl prints with what it prints at upstream.
func TestKubectlReadsTheSameThroughWeir(t *testing.T) {
	t.Parallel()
	weir, upstream := kubectlFor(t, endpoint(t)), kubectlFor(t, plane.B.Direct())
	for _, args := range []string{
		"get pods -n lock -o wide --no-headers=false", "get pods -A -o name -l app=pump", "get configmaps -n lock -o yaml",
		"get configmap names -n lock -o json", "get gauges,depots -n lock -o json", "get nodes --show-labels",
		"get deployments -n lock -o jsonpath={.items[*].metadata.name}", "api-resources", "api-versions", "explain gauges.spec",
		"describe service pump -n lock", "get pods -n lock --chunk-size=1 -o name", "auth can-i list pods",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(args)
			got := ageless(kubectl{t, weir.kubeconfig}.run("", words...))
			want := ageless(kubectl{t, upstream.kubeconfig}.run("", words...))
			if got != want {
				g, w := fromDifference([]byte(got), []byte(want))
				t.Errorf("through weir:\n%s\nat upstream:\n%s", g, w)
			}
		})
	}
}

var duration = regexp.MustCompile(`^(\d+[dhms])+$`)

// ageless takes the columns out that go on counting.
func ageless(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		var words []string
		for _, word := range strings.Fields(line) {
			if !duration.MatchString(word) {
				words = append(words, word)
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// TestKubectlWritesThroughWeir applies, changes, waits, follows and deletes.
func TestKubectlWritesThroughWeir(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	k := kubectlFor(t, endpoint(t))
	const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied","labels":{"step":"%d"}},"data":{"a":"%[1]d"}}`
	lines := k.follow("get", "configmaps", "-n", space, "--watch", "--output-watch-events", "--no-headers")

	k.run(fmt.Sprintf(manifest, 1), "apply", "-n", space, "-f", "-")
	k.run(fmt.Sprintf(manifest, 2), "apply", "-n", space, "-f", "-")
	k.run(fmt.Sprintf(manifest, 3), "apply", "-n", space, "--server-side", "--force-conflicts", "-f", "-")
	k.run("", "wait", "-n", space, "--for=jsonpath={.data.a}=3", "configmap/applied", "--timeout=20s")
	k.run("", "label", "-n", space, "configmap", "applied", "step=4", "--overwrite")

	waited := make(chan error, 1)
	waiting := k.command(t.Context(), "wait", "-n", space, "--for=delete", "configmap/applied", "--timeout=20s")
	go func() { waited <- waiting.Run() }()
	k.run("", "delete", "-n", space, "configmap", "applied")
	if err := <-waited; err != nil {
		t.Errorf("kubectl wait --for=delete: %v", err)
	}
	// kubectl decides how many writes an apply is, so only the ends and the least number are known.
	const fewest = 5
	for i, event := 0, "ADDED"; event != "DELETED"; i++ {
		line, err := readLine(lines)
		fields := strings.Fields(line)
		if err != nil || len(fields) < 2 || fields[1] != "applied" {
			t.Fatalf("line %d of the watch is %q (%v)", i, line, err)
		}
		if event = fields[0]; (i == 0) != (event == "ADDED") || event == "DELETED" && i < fewest-1 {
			t.Fatalf("line %d of the watch is %q", i, line)
		}
	}
}

// readLine waits for a line, but not for ever.
func readLine(lines *bufio.Reader) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := lines.ReadString('\n')
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-time.After(patience):
		return "", io.ErrNoProgress
	}
}

// TestKubectlRawFromTheMirror sends a path as it stands.
func TestKubectlRawFromTheMirror(t *testing.T) {
	t.Parallel()
	k := kubectlFor(t, endpoint(t))
	weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	path := configMaps.in("lock") + "?resourceVersion=%d&resourceVersionMatch=Exact"
	path = fmt.Sprintf(path, parseList(t, getMirrored(t, weir, configMaps.in("lock")+"?resourceVersion=0").Body).RV())
	if got, want := k.run("", "get", "--raw", path), string(upstream.Get(t, path).Body); got != want {
		t.Errorf("through weir:\n%s\nat upstream:\n%s", got, want)
	}
}
