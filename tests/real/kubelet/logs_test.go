package kubelet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// TestUG06_FollowedLogs follows a log with kubectl: each line has come before the next is written, and the end of the
// container is the end of the command.
func TestUG06_FollowedLogs(t *testing.T) {
	k := kubectlWith(t, nil)
	name, _ := pod(t)
	log := backend.Log(space, name)
	command := k.command(t.Context(), "logs", "-f", name)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	for i := range 20 {
		want := fmt.Sprintf("line %d of 20", i)
		log.Write(want + "\n")
		select {
		case got := <-lines:
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("line %d did not come before the next was written", i)
		}
	}
	log.End()
	if line, open := <-lines; open {
		t.Errorf("behind the last line came %q", line)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("kubectl logs -f: %v", err)
	}
}

// TestUG06_AReaderWhoLeavesIsGoneUpstream ends the client; the kubelet has no follower left soon after.
func TestUG06_AReaderWhoLeavesIsGoneUpstream(t *testing.T) {
	for _, last := range []string{"half a line", "a line\n"} {
		name, path := pod(t)
		log := backend.Log(space, name)
		ctx, cancel := context.WithCancel(t.Context())
		response, err := caller(t).Open(ctx, client.Request{Path: path + "/log?follow=true"})
		if err != nil {
			t.Fatal(err)
		}
		log.Write(last)
		if _, err := io.ReadFull(response.Body, make([]byte, len(last))); err != nil {
			t.Fatal(err)
		}
		if n := log.Followers(); n != 1 {
			t.Fatalf("%d followers, want one", n)
		}
		cancel()
		wait.Eventually(t, fmt.Sprintf("no follower is left behind %q", last), patience, func() error {
			if n := log.Followers(); n != 0 {
				return fmt.Errorf("%d are left", n)
			}
			return nil
		})
	}
}

// TestUG06_OptionsOfLogsArriveAsTheyAre compares what the kubelet is asked for, and the answer, with those past weir.
func TestUG06_OptionsOfLogsArriveAsTheyAre(t *testing.T) {
	name, path := pod(t)
	backend.Log(space, name).Write(strings.Repeat("all of this could be packed\n", 10_000))
	weir, upstream := caller(t), direct(t)
	for _, query := range []string{"", "?limitBytes=10&tailLines=3", "?previous=true&timestamps=true", "?sinceSeconds=5&container=main"} {
		header := http.Header{"Accept-Encoding": {"gzip"}, "Accept": {"*/*"}}
		var answers []client.Answer
		var asked []string
		for _, c := range []*client.Client{weir, upstream} {
			before := len(backend.Requests())
			answers = append(answers, c.Must(t, client.Request{Path: path + "/log" + query, Header: header}))
			for _, request := range backend.Requests()[before:] {
				asked = append(asked, request.URI)
			}
		}
		if len(asked) != 2 || asked[0] != asked[1] {
			t.Errorf("log%s: the kubelet was asked %q", query, asked)
		}
		for _, name := range []string{"Content-Type", "Content-Encoding"} {
			if got, want := answers[0].Header.Values(name), answers[1].Header.Values(name); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("log%s: %s is %q, want %q", query, name, got, want)
			}
		}
		if answers[0].Status != answers[1].Status || string(answers[0].Body) != string(answers[1].Body) {
			t.Errorf("log%s: %d and %d bytes, want %d and %d", query, answers[0].Status, len(answers[0].Body), answers[1].Status, len(answers[1].Body))
		}
	}
}

// TestUG07_StalledReadersHoldUpNoWrite has a hundred readers of logs that stop reading, on connections of their own and on one:
// objects are made, read and listed beside them as if they were not there.
func TestUG07_StalledReadersHoldUpNoWrite(t *testing.T) {
	const readers = 100
	name, path := pod(t)
	log := backend.Log(space, name)
	log.Flood([]byte(strings.Repeat("a line that nobody reads\n", 2_000)))
	for range readers {
		stall(t, path+"/log?follow=true")
	}
	wait.Eventually(t, "all readers are connected", patience, func() error {
		if n := log.Followers(); n != readers {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	c := caller(t)
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		one := fmt.Sprintf("beside-%s-%d", name, i)
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, one)
		_, err := c.Write(ctx, http.MethodPost, "/api/v1/namespaces/"+space+"/configmaps", body)
		answer, read := c.Send(ctx, client.Request{Path: "/api/v1/namespaces/" + space + "/configmaps/" + one})
		cancel()
		if err != nil || read != nil || answer.Status != http.StatusOK {
			t.Fatalf("object %d beside %d stalled readers: %v; read: %d %v", i, readers, err, answer.Status, read)
		}
	}
	if n := log.Followers(); n != readers {
		t.Errorf("%d readers are left of %d", n, readers)
	}
}

// stall asks for a path on a connection of its own and reads the head of the answer, with little room for the rest. What it
// returns ends the connection, as does the end of the test.
func stall(t testing.TB, path string) func() {
	t.Helper()
	endpoint := plane.Weir.Endpoint(0)
	address, err := url.Parse(endpoint.URL)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Dial("tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tcp.Close() })
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(endpoint.CA)
	if err := tcp.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	connection := tls.Client(tcp, &tls.Config{RootCAs: roots, ServerName: address.Hostname(), NextProtos: []string{"http/1.1"}})
	request := "GET " + path + " HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer " + cluster.AdminToken + "\r\n\r\n"
	if _, err := io.WriteString(connection, request); err != nil {
		t.Fatal(err)
	}
	head := bufio.NewReaderSize(connection, 1<<10)
	line, err := head.ReadString('\n')
	if err != nil || !strings.Contains(line, " 200 ") {
		t.Fatal(errors.Join(fmt.Errorf("%s: %q", path, line), err))
	}
	return func() { tcp.Close() }
}
