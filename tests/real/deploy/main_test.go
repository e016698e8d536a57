// Package deploy judges what deploy/ says: the manifests by reading them and by a real kube-apiserver, which would admit
// them; the README by following it; and the arguments by running `weir shard` with them. A kubelet's part is played here,
// so what a container adds (its user, its file system) is judged by reading only.
package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"weir.dev/tests/real/cluster"
)

// plane is the one control plane of this run, and a checkout's root with kubectl and weir at hand.
type plane struct {
	*cluster.Cluster
	root string // the working directory of the README's commands
}

// Each step of the installation is made once, by the first test that needs it; a step needs the ones before.
var (
	started   = sync.OnceValues(startPlane)
	named     = after(started, 0) // the namespace is there
	certified = after(named, 1)   // and the certificates
	installed = after(certified, 2)
)

// running is the control plane that the end of the run has to end.
var running *cluster.Cluster

func TestMain(m *testing.M) {
	code := m.Run()
	if running != nil {
		running.Close()
	}
	os.Exit(code)
}

// startPlane starts the apiservers without weir, and lays out what the README's commands expect.
func startPlane() (*plane, error) {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{Plain: true})
	if err != nil {
		return nil, err
	}
	running = c
	p := &plane{c, filepath.Join(c.Dir, "root")}
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.WriteKubeconfig("admin", c.B.Direct(), cluster.AdminToken)
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(p.root, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return nil, err
	}
	return p, errors.Join(
		os.Symlink(c.Kubectl(ctx, kubeconfig).Path, filepath.Join(bin, "kubectl")),
		os.Symlink(weirBinary(root), filepath.Join(bin, "weir")),
		os.Symlink(filepath.Join(root, "deploy"), filepath.Join(p.root, "deploy")),
		os.Symlink(kubeconfig, filepath.Join(p.root, "config")),
	)
}

func weirBinary(root string) string {
	if path := os.Getenv("WEIR_BIN"); path != "" {
		return path
	}
	return filepath.Join(root, "target/debug/weir")
}

// after follows one step of the README on top of the ones before.
func after(before func() (*plane, error), step int) func() (*plane, error) {
	return sync.OnceValues(func() (*plane, error) {
		p, err := before()
		if err != nil {
			return nil, err
		}
		steps, err := readSteps()
		if err != nil {
			return nil, err
		}
		if out, err := p.command("sh", "-euc", steps[step]).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s\n%s", err, steps[step], out)
		}
		return p, nil
	})
}

// readSteps are the commands of the README that install everything, in order.
func readSteps() ([]string, error) {
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/kubernetes/README.md"))
	if err != nil {
		return nil, err
	}
	var steps []string
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllSubmatch(text, -1) {
		steps = append(steps, string(block[1]))
	}
	if len(steps) != 3 {
		return nil, fmt.Errorf("the README has %d steps, not 3", len(steps))
	}
	return steps, nil
}

// command is a command as somebody who installs weir would give it.
func (p *plane) command(name string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(p.root, "bin", name), args...)
	if name == "sh" {
		command = exec.Command(name, args...)
	}
	command.Dir = p.root
	command.Env = []string{
		"PATH=" + filepath.Join(p.root, "bin") + ":/usr/bin:/bin",
		"HOME=" + p.Dir,
		"KUBECONFIG=" + filepath.Join(p.root, "config"),
	}
	return command
}

// certs is where the README's commands write the certificates.
func (p *plane) certs() string { return filepath.Join(p.root, "certs") }

// kubectl runs the real kubectl with some input and returns what it said.
func (p *plane) kubectl(input string, args ...string) (string, error) {
	command := p.command("kubectl", args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// reached is the control plane after a step of the installation.
func reached(t *testing.T, step func() (*plane, error)) *plane {
	t.Helper()
	p, err := step()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
