package kubelet

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/modes"
	"weir.dev/tests/real/wait"
)

// upstreamSaw demands that an apiserver has seen a subresource of a pod asked for with a verb: kubectl falls back from one way
// of streaming to the other without a word.
func upstreamSaw(t *testing.T, verb, path string) {
	t.Helper()
	log := audit.NewLog(plane.A, plane.B)
	wait.Eventually(t, "the audit log has "+verb+" "+path, patience, func() error {
		entries, err := log.Select(audit.Filter{Verb: verb})
		for _, entry := range entries {
			if strings.HasPrefix(entry.URI, path+"?") || entry.URI == path {
				return nil
			}
		}
		return errors.Join(err, errors.New("it is not there"))
	})
}

// TestUG03_ExecAttachAndPortForward runs the three over both kinds of upgrade: words go in and come out, the end of the input
// arrives, and so does the code with which the command ended.
func TestUG03_ExecAttachAndPortForward(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			k := kubectlWith(t, transport.env)
			name, path := pod(t)

			script := `cat; echo "to stderr" >&2; exit 3`
			out, complaints, err := k.run("first\nlast", "exec", "-i", name, "--", "sh", "-c", script)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 3 {
				t.Errorf("exec ended with %v, want code 3", err)
			}
			if out != "first\nlast" || !strings.Contains(complaints, "to stderr") {
				t.Errorf("exec printed %q and %q", out, complaints)
			}
			upstreamSaw(t, transport.verb, path+"/exec")

			if out := k.must("heard", "attach", "-i", name); !strings.Contains(out, "heard") {
				t.Errorf("attach printed %q", out)
			}
			upstreamSaw(t, transport.verb, path+"/attach")

			forwards(t, k, name)
			upstreamSaw(t, transport.verb, path+"/portforward")
		})
	}
}

var listens = regexp.MustCompile(`Forwarding from 127\.0\.0\.1:(\d+) ->`)

// forwards sends words through a forwarded port, closes one direction and reads the answer.
func forwards(t *testing.T, k kubectl, name string) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			connection, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				heard, _ := io.ReadAll(connection) // until the other side has closed its half
				fmt.Fprintf(connection, "heard %s", heard)
			}()
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	command := k.command(ctx, "port-forward", "pod/"+name, ":"+strconv.Itoa(server.Addr().(*net.TCPAddr).Port))
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = command.Wait() // it was killed
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	port := listens.FindStringSubmatch(line)
	if err != nil || port == nil {
		t.Fatalf("kubectl port-forward printed %q (%v)", line, err)
	}
	for round := range 3 {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port[1])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(connection, "round %d", round)
		_ = connection.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(connection)
		if want := fmt.Sprintf("heard round %d", round); string(answer) != want {
			t.Errorf("the forwarded port answered %q (%v), want %q", answer, err, want)
		}
		connection.Close()
	}
}

// large is how many bytes are copied: more than all buffers on the way hold together.
func large() int64 {
	if modes.IsLong() {
		return 2 << 30
	}
	return 64 << 20
}

// TestUG07_LargeCopies copies a file into a container and out of it, by both kinds of upgrade.
func TestUG07_LargeCopies(t *testing.T) {
	source := filepath.Join(t.TempDir(), "source")
	sum := fill(t, source, large())
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			k := kubectlWith(t, transport.env)
			name, _ := pod(t)
			inside := t.TempDir() // a container is this machine
			k.must("", "cp", source, name+":"+inside+"/copy")
			if got := digest(t, inside+"/copy"); got != sum {
				t.Errorf("copied in: digest %s, want %s", got, sum)
			}
			outside := filepath.Join(t.TempDir(), "back")
			k.must("", "cp", name+":"+inside+"/copy", outside)
			if got := digest(t, outside); got != sum {
				t.Errorf("copied out: digest %s, want %s", got, sum)
			}
		})
	}
}

// TestUG07_CopiesThatNobodyReads holds many streams open whose clients read nothing: weir keeps next to nothing for each, other
// sessions go on, and what was held back comes whole once it is read.
func TestUG07_CopiesThatNobodyReads(t *testing.T) {
	const sessions, each = 20, 16 << 20
	source := filepath.Join(t.TempDir(), "source")
	sum := fill(t, source, each)
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			k := kubectlWith(t, transport.env)
			name, _ := pod(t)
			k.must("", "exec", name, "--", "true") // what the first session needs for good is there
			before := resident(t)
			var outputs []io.Reader
			for range sessions {
				command := k.command(t.Context(), "exec", name, "--", "cat", source)
				out, err := command.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = command.Wait() })
				reader := bufio.NewReader(out)
				if _, err := reader.Peek(1); err != nil { // it streams, and then nobody reads
					t.Fatal(err)
				}
				outputs = append(outputs, reader)
			}
			for round := range 5 {
				if out := k.must("", "exec", name, "--", "echo", "round"); out != "round\n" {
					t.Errorf("round %d beside them printed %q", round, out)
				}
			}
			if held := resident(t) - before; held > sessions<<20 {
				t.Errorf("weir holds %d KiB for %d sessions, want at most 1 MiB for each", held>>10, sessions)
			}
			for i, output := range outputs {
				hash := sha256.New()
				if n, err := io.Copy(hash, output); err != nil || fmt.Sprintf("%x", hash.Sum(nil)) != sum {
					t.Errorf("session %d: %d bytes that are not the file's (%v)", i, n, err)
				}
			}
		})
	}
}

// resident is how much memory weir has now; 0 when an apiserver stands in its place.
func resident(t *testing.T) int64 {
	t.Helper()
	if plane.Weir.Process() == nil {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", plane.Weir.Process().PID()))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no resident memory in %s", status)
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// fill writes a file whose bytes repeat nowhere soon, and returns its digest.
func fill(t *testing.T, path string, size int64) string {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	for written := int64(0); written < size; {
		n, err := fmt.Fprintf(out, "%016x", written*2654435761)
		if err != nil {
			t.Fatal(err)
		}
		written += int64(n)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return digest(t, path)
}

func digest(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// TestAU03_ARefusedUpgradeIsAnAnswer asks for streams of a pod that is not there, and for ones without the right to.
func TestAU03_ARefusedUpgradeIsAnAnswer(t *testing.T) {
	k := kubectlWith(t, nil)
	_, complaints, err := k.run("", "exec", "absent", "--", "true")
	if err == nil || !strings.Contains(complaints, `pods "absent" not found`) {
		t.Errorf("exec into no pod: %v, %q", err, complaints)
	}
	name, path := pod(t)
	if _, complaints, err = k.run("", "exec", "--as", "nobody", name, "--", "true"); err == nil || !strings.Contains(complaints, "orbidden") {
		t.Errorf("exec without the right to: %v, %q", err, complaints)
	}
	for _, request := range backend.Requests() {
		if strings.Contains(request.URI, "/"+name+"/") {
			t.Errorf("the kubelet was asked for %s", request.URI)
		}
	}
	if answer := caller(t).Get(t, path); answer.Status != http.StatusOK {
		t.Errorf("afterwards: %d", answer.Status)
	}
}
