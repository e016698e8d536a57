package deploy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// pod is a process with the arguments of a manifest. It has a loopback address of its own, as a pod has one in its cluster;
// the ports are the same for all pods, and stand for those of the manifests.
type pod struct {
	name      string
	place     string // as in --shard
	container corev1.Container
	address   string
	ports     map[int32]int
	dir       string

	command *exec.Cmd
	log     string
	done    chan struct{} // closed after the process was waited for

	mu    sync.Mutex
	lines []string // of its stdout
}

// startLimit bounds the start of a pod, all of them at once and on a busy machine.
const startLimit = 60 * time.Second

// newPods are the pods of all sets.
func newPods(t *testing.T, m *manifests) []*pod {
	t.Helper()
	var pods []*pod
	var ports map[int32]int
	for _, set := range m.sets {
		for replica := range *set.Spec.Replicas {
			p := newPod(t, &set, fmt.Sprintf("%s-%d", set.Name, replica))
			if ports == nil {
				ports = freePorts(t, p)
			}
			p.ports = ports
			pods = append(pods, p)
		}
	}
	return pods
}

func newPod(t *testing.T, set *appsv1.StatefulSet, name string) *pod {
	t.Helper()
	index, count, err := place(set)
	if err != nil {
		t.Fatal(err)
	}
	// Any address that begins with 127 is loopback. One at random is nobody else's, whatever ports they use on theirs.
	address := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(255), 1+rand.IntN(254))
	return &pod{
		name:      name,
		place:     fmt.Sprintf("%d/%d", index, count),
		container: set.Spec.Template.Spec.Containers[0],
		address:   address,
		dir:       t.TempDir(),
	}
}

// freePorts gives each port of the manifests one that is free on a pod's address.
func freePorts(t *testing.T, p *pod) map[int32]int {
	t.Helper()
	ports := map[int32]int{}
	for _, port := range p.container.Ports {
		listener, err := net.Listen("tcp", p.address+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ports[port.ContainerPort] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// at is where a port of the container is, by its name.
func (p *pod) at(port string) string {
	return fmt.Sprintf("%s:%d", p.address, p.ports[numbered(p.container, port)])
}

// mount writes what a Secret holds, as a kubelet does.
func (p *pod) mount(t *testing.T, data map[string][]byte) {
	t.Helper()
	for name, content := range data {
		if err := os.WriteFile(filepath.Join(p.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// substitute puts others in the place of some arguments. One that was not there is an error: the table is then about other
// manifests.
func substitute(args []string, table map[string][]string) ([]string, error) {
	var out []string
	used := 0
	for _, argument := range args {
		if others, is := table[argument]; is {
			used++
			out = append(out, others...)
		} else {
			out = append(out, argument)
		}
	}
	if used != len(table) {
		return nil, fmt.Errorf("%d of %d substitutions hit %q", used, len(table), args)
	}
	return out, nil
}

// A child dies with the thread that started it, so one goroutine that keeps its thread starts them all.
var spawner = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range work {
			start()
		}
	}()
	return work
})

// start runs the process; it is killed at the end of the test if it still runs.
func (p *pod) start(t *testing.T, args []string) {
	t.Helper()
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	p.log = filepath.Join(p.dir, "log")
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	reader, writer := io.Pipe()
	p.command = exec.Command(weirBinary(root), args...)
	p.command.Dir, p.command.Stdout, p.command.Stderr = p.dir, writer, log
	p.command.Env = []string{"POD_IP=" + p.address}
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	failed := make(chan error)
	spawner() <- func() { failed <- p.command.Start() }
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func() {
		_ = p.command.Wait() // how it ended is read from ProcessState
		writer.Close()
		close(p.done)
	}()
	go p.read(reader)
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.done
	})
}

func (p *pod) read(stdout io.Reader) {
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		p.mu.Unlock()
	}
}

// said is what the process has printed so far.
func (p *pod) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// probe does what a kubelet does.
func (p *pod) probe(probe *corev1.Probe) error {
	return p.ask(probe.HTTPGet.Port.String(), probe.HTTPGet.Path, func(response *http.Response, _ []byte) error {
		if response.StatusCode < 200 || response.StatusCode >= 400 {
			return statusError(response.StatusCode)
		}
		return nil
	})
}

// statusError is an answer that a probe takes for a no.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("answered %d", int(e)) }

// ask sends one request on a connection of its own, as a kubelet does, and judges the answer.
func (p *pod) ask(port, path string, judge func(*http.Response, []byte) error) error {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.at(port)+path, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return judge(response, body)
}

// await repeats an attempt until it succeeds or the process ends.
func (p *pod) await(t *testing.T, what string, attempt func() error) {
	t.Helper()
	deadline := time.After(startLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := attempt()
		if err == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("%s ended before %s: %v\n%s", p.name, what, p.command.ProcessState, p.tail())
		case <-deadline:
			t.Fatalf("%s: no %s within %s: %v\n%s", p.name, what, startLimit, err, p.tail())
		case <-tick.C:
		}
	}
}

// line waits for a line of stdout and returns what follows a prefix there.
func (p *pod) line(t *testing.T, prefix string) string {
	t.Helper()
	var found string
	p.await(t, "line "+prefix, func() error {
		for _, line := range p.said() {
			if rest, is := strings.CutPrefix(line, prefix); is {
				found = rest
				return nil
			}
		}
		return errors.New("not said")
	})
	return found
}

func (p *pod) tail() string {
	const lines = 20
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
