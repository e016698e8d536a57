package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// Holder stands before an instance and passes everything on, but can hold back what the watches of some collections say.
// Lists are then ahead of streams, on one and the same connection: a relay, which knows no requests, can't do that.
type Holder struct {
	instance *Instance
	takes    func(path string) bool
	server   *http.Server

	mu    sync.Mutex
	held  chan struct{} // closed when bytes may go on; nil when they may
	bytes int           // that had to wait
}

// Hold puts a holder for the watches of some paths before an instance, and moves the instance's connections to it.
func (i *Instance) Hold(takes func(path string) bool) (*Holder, error) {
	file := i.cluster.pki.file
	certificate, err := tls.LoadX509KeyPair(file("server.crt"), file("server.key"))
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(i.Direct().URL)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(i.cluster.pki.ca)
	h := &Holder{instance: i, takes: takes}
	quiet := log.New(io.Discard, "", 0) // of connections that are cut
	h.server = &http.Server{
		ErrorLog:  quiet,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableCompression: true,
			},
			ModifyResponse: h.wrap,
			FlushInterval:  -1,
			ErrorLog:       quiet,
		},
	}
	go h.server.ServeTLS(listener, "", "")
	i.Relay.Pin(listener.Addr().String())
	i.Relay.Cut()
	return h, nil
}

// Silence holds the streams back until it is called with false.
func (h *Holder) Silence(silent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case silent && h.held == nil:
		h.held = make(chan struct{})
	case !silent && h.held != nil:
		close(h.held)
		h.held = nil
	}
}

// Held is how many bytes had to wait so far.
func (h *Holder) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// Close lets everything go and moves the instance's connections back.
func (h *Holder) Close() {
	h.Silence(false)
	h.instance.Relay.Pin(h.instance.address)
	h.instance.Relay.Cut()
	h.server.Close()
}

func (h *Holder) wrap(response *http.Response) error {
	request := response.Request
	if request.URL.Query().Has("watch") && h.takes(request.URL.Path) {
		response.Body = heldBody{response.Body, request.Context(), h}
	}
	return nil
}

// await waits until n bytes may go on, or nobody wants them any more.
func (h *Holder) await(ctx context.Context, n int) {
	h.mu.Lock()
	held := h.held
	if held != nil {
		h.bytes += n
	}
	h.mu.Unlock()
	if held == nil {
		return
	}
	select {
	case <-held:
	case <-ctx.Done():
	}
}

type heldBody struct {
	io.ReadCloser
	request context.Context
	holder  *Holder
}

func (b heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.holder.await(b.request, n)
	return n, err
}
