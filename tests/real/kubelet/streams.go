package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Protocols and headers of the streams of a connection, as apiservers and kubectl use them.
const (
	remoteCommand = "v4.channel.k8s.io"
	portForward   = "portforward.k8s.io"

	streamType = "streamType"
	errorType  = "error"
	stdinType  = "stdin"
	stdoutType = "stdout"
	stderrType = "stderr"
	dataType   = "data"
	portHeader = "port"
	pairHeader = "requestID"
)

// streamsLimit bounds the wait for the streams that a request announces.
const streamsLimit = 20 * time.Second

// remote is one execution: its streams by type.
type remote struct {
	ctx     context.Context
	streams map[string]httpstream.Stream
}

// exec runs a command.
func (k *Kubelet) exec(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query()["command"]
	if len(words) == 0 {
		http.Error(w, "no command", http.StatusBadRequest)
		return
	}
	k.serveRemote(w, r, words)
}

// attach is to a process that says what it hears.
func (k *Kubelet) attach(w http.ResponseWriter, r *http.Request) {
	k.serveRemote(w, r, []string{"cat"})
}

func (k *Kubelet) serveRemote(w http.ResponseWriter, r *http.Request, words []string) {
	opened, connection := upgrade(w, r, remoteCommand)
	if connection == nil {
		return
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-connection.CloseChan()
		cancel()
	}()
	execution := remote{ctx, map[string]httpstream.Stream{}}
	wanted := 1 // the error stream
	for _, parameter := range []string{"input", "output", "error"} {
		if r.URL.Query().Get(parameter) == "1" {
			wanted++
		}
	}
	deadline := time.After(streamsLimit)
	for len(execution.streams) < wanted {
		select {
		case stream := <-opened:
			execution.streams[stream.Headers().Get(streamType)] = stream
		case <-deadline:
			return
		case <-ctx.Done():
			return
		}
	}
	fmt.Fprint(execution.streams[errorType], status(k.run(execution, words)))
}

// run runs a command over the streams of an execution.
func (k *Kubelet) run(execution remote, words []string) error {
	command := exec.CommandContext(execution.ctx, words[0], words[1:]...)
	command.Dir = k.Dir
	for _, output := range []struct {
		to     *io.Writer
		stream httpstream.Stream
	}{{&command.Stdout, execution.streams[stdoutType]}, {&command.Stderr, execution.streams[stderrType]}} {
		if output.stream != nil {
			*output.to = output.stream
			defer output.stream.Close()
		}
	}
	if stdin := execution.streams[stdinType]; stdin != nil {
		pipe, err := command.StdinPipe() // os/exec would wait for the end of a stream that it copies itself
		if err != nil {
			return err
		}
		go func() {
			defer pipe.Close()
			_, _ = io.Copy(pipe, stdin) // the command need not read all of it
		}()
	}
	return command.Run()
}

// status is how an execution ended, in the words of the protocol.
func status(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return `{"metadata":{},"status":"Success"}`
	case errors.As(err, &exit):
		return fmt.Sprintf(`{"metadata":{},"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with exit code %d",
			"details":{"causes":[{"reason":"ExitCode","message":"%[1]d"}]}}`, exit.ExitCode())
	default:
		return fmt.Sprintf(`{"metadata":{},"status":"Failure","reason":"InternalError","message":%q}`, err)
	}
}

// portForward joins pairs of streams with ports of the loopback.
func (k *Kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	opened, connection := upgrade(w, r, portForward)
	if connection == nil {
		return
	}
	defer connection.Close()
	waiting := map[string]httpstream.Stream{} // for the other one of its pair
	for {
		select {
		case <-connection.CloseChan():
			return
		case stream := <-opened:
			pair := stream.Headers().Get(pairHeader)
			other := waiting[pair]
			switch {
			case other == nil:
				waiting[pair] = stream
				continue
			case stream.Headers().Get(streamType) == dataType:
				go forward(stream, other)
			default:
				go forward(other, stream)
			}
			delete(waiting, pair)
		}
	}
}

// forward joins a stream with the port that it names, each direction until its own end; what is wrong is told on the other one.
func forward(stream, refusal httpstream.Stream) {
	defer stream.Close()
	defer refusal.Close()
	connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", stream.Headers().Get(portHeader)))
	if err != nil {
		fmt.Fprint(refusal, err)
		return
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(stream, connection)
}

// upgrade turns a request's connection into streams, which come by the channel in the order in which they are opened.
func upgrade(w http.ResponseWriter, r *http.Request, protocol string) (<-chan httpstream.Stream, httpstream.Connection) {
	if _, err := httpstream.Handshake(r, w, []string{protocol}); err != nil {
		return nil, nil // it has answered
	}
	opened := make(chan httpstream.Stream, 64)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, replied <-chan struct{}) error {
		go func() {
			<-replied
			opened <- stream
		}()
		return nil
	})
	return opened, connection
}
