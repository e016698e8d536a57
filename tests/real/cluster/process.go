package cluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is one child of the suite. It dies with the suite, however the suite ends.
type Process struct {
	Name string
	Log  string // file with what it wrote to stderr (and to stdout unless taken by the caller)

	command *exec.Cmd
	done    chan struct{} // closed after the process was waited for
}

type command struct {
	name   string
	binary string
	args   []string
	dir    string // where the log goes
	stdout io.Writer
}

// A child asks the kernel to be killed with its parent, and the kernel means the parent's thread. So one goroutine that
// keeps its thread for ever starts them all.
var spawner = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for start := range spawner {
			start()
		}
	}()
}

func start(c command) (*Process, error) {
	log := fmt.Sprintf("%s/%s.log", c.dir, c.name)
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(c.binary, c.args...)
	cmd.Stderr, cmd.Stdout = file, file
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	spawner <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	p := &Process{c.name, log, cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is read from ProcessState
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is the process's number.
func (p *Process) PID() int { return p.command.Process.Pid }

// Stop freezes the process (SIGSTOP): its connections stay up and say nothing.
func (p *Process) Stop() error { return p.command.Process.Signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on.
func (p *Process) Continue() error { return p.command.Process.Signal(syscall.SIGCONT) }

// Kill ends the process at once and waits for its end. One that has ended already is no error.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.done
}

// End asks the process to end (SIGTERM) and kills it when it has not within the grace.
func (p *Process) End(grace time.Duration) {
	_ = p.terminate()
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

func (p *Process) terminate() error { return p.command.Process.Signal(syscall.SIGTERM) }

// Tail is the end of the log, for error messages.
func (p *Process) Tail() string {
	const lines = 25
	content, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
