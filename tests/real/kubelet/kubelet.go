// Package kubelet plays a kubelet's part towards a kube-apiserver: the HTTP API to which it passes exec, attach, port-forward
// and logs. A container is this machine: its commands are run here, its ports are those of the loopback, and its log is
// written by the test. The tests of the package stream all of it through weir with the real kubectl.
package kubelet

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Kubelet is one that listens, on a free port of the loopback.
type Kubelet struct {
	// Dir is the working directory of commands.
	Dir string

	server *httptest.Server

	mu       sync.Mutex
	logs     map[string]*Log // by namespace and pod
	requests []Request
}

// Request is what an apiserver asked for.
type Request struct {
	Method string
	URI    string
	Header http.Header
}

// New makes one whose commands run in a directory.
func New(dir string) *Kubelet {
	k := &Kubelet{Dir: dir, logs: map[string]*Log{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.attach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", k.containerLogs)
	k.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.requests = append(k.requests, Request{r.Method, r.URL.RequestURI(), r.Header.Clone()})
		k.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	return k
}

// Close ends it and everything that streams.
func (k *Kubelet) Close() {
	k.server.CloseClientConnections()
	k.server.Close()
}

// Requests are all that were made so far.
func (k *Kubelet) Requests() []Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Request(nil), k.requests...)
}

// Node is the Node object by which apiservers find it.
func (k *Kubelet) Node(name string) string {
	address := k.server.Listener.Addr().(*net.TCPAddr)
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q},"status":{
		"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`,
		name, address.IP, address.Port)
}

// Log is what the container of a pod has written.
func (k *Kubelet) Log(namespace, pod string) *Log {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := namespace + "/" + pod
	if k.logs[name] == nil {
		k.logs[name] = newLog()
	}
	return k.logs[name]
}
