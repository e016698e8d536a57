// Package client speaks raw HTTP to an apiserver or to weir. The suite compares bytes, headers and frames, all of which
// client-go hides; where the suite wants to know what a real client makes of them, it uses client-go beside this.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Endpoint is a server and the authority that signed its certificate.
type Endpoint struct {
	Name string
	URL  string
	CA   []byte
}

// Client sends requests of one caller to one endpoint. Its user agent marks them in the audit logs.
type Client struct {
	Endpoint Endpoint
	Agent    string

	token string
	http  *http.Client
}

// Answer is one complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// AnsweredBy is the header in which weir says where an answer came from.
const AnsweredBy = "Weir-Answered-By"

// FromMirror says whether weir answered from a mirror, with or without a proof that it was fresh.
func FromMirror(header http.Header) bool {
	who, _, _ := strings.Cut(header.Get(AnsweredBy), "; ")
	return who == "mirror"
}

// Request is what a test wants to send; zero fields are left out.
type Request struct {
	Method string
	Path   string // path and query, sent as it stands
	Header http.Header
	Body   []byte
}

// requestLimit bounds a request whose answer is read whole; kube-apiserver's own bound is 60 s.
const requestLimit = 70 * time.Second

// New makes a client with connections of its own. An empty token makes an anonymous one.
func New(endpoint Endpoint, token, agent string) *Client {
	return newClient(endpoint, token, agent, &tls.Config{})
}

// NewShowing makes a client that shows a certificate, whether or not the server hints that it would trust it; the token may
// be empty.
func NewShowing(endpoint Endpoint, certificate tls.Certificate, token, agent string) *Client {
	show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	return newClient(endpoint, token, agent, &tls.Config{GetClientCertificate: show})
}

func newClient(endpoint Endpoint, token, agent string, config *tls.Config) *Client {
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AppendCertsFromPEM(endpoint.CA)
	transport := &http.Transport{
		TLSClientConfig:     config,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
	}
	// A redirect is an answer like any other; following it would hide it.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{endpoint, agent, token, &http.Client{Transport: transport, CheckRedirect: stay}}
}

// Close drops the client's idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Open sends a request and returns with its headers; the caller closes the body.
func (c *Client) Open(ctx context.Context, r Request) (*http.Response, error) {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Endpoint.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	if len(r.Body) == 0 {
		request.Body, request.ContentLength = nil, 0
	}
	if request.URL, err = url.Parse(c.Endpoint.URL + r.Path); err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", c.Agent)
	request.Header.Set("Accept", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, values := range r.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	return c.http.Do(request)
}

// Send makes a request and reads the whole answer.
func (c *Client) Send(ctx context.Context, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	response, err := c.Open(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, body}, err
}

// Must is Send for tests: a request without an answer ends the test.
func (c *Client) Must(t testing.TB, r Request) Answer {
	t.Helper()
	answer, err := c.Send(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %s %s: %v", c.Endpoint.Name, r.Method, r.Path, err)
	}
	return answer
}

// Get is Must for a path that has to be answered with 200.
func (c *Client) Get(t testing.TB, path string) Answer {
	t.Helper()
	answer := c.Must(t, Request{Path: path})
	if answer.Status != http.StatusOK {
		t.Fatalf("%s: GET %s: %d\n%s", c.Endpoint.Name, path, answer.Status, Excerpt(answer.Body))
	}
	return answer
}

// Write sends a JSON body (PATCH: as a merge patch) and expects success.
func (c *Client) Write(ctx context.Context, method, path string, body []byte) (Answer, error) {
	content := "application/json"
	if method == http.MethodPatch {
		content = "application/merge-patch+json"
	}
	answer, err := c.Send(ctx, Request{method, path, http.Header{"Content-Type": {content}}, body})
	if err == nil && answer.Status >= 300 {
		err = fmt.Errorf("%s: %s %s: %d %s", c.Endpoint.Name, method, path, answer.Status, Excerpt(answer.Body))
	}
	return answer, err
}

// Excerpt is the beginning of a body, short enough for a test's output.
func Excerpt(body []byte) string {
	const most = 600
	if len(body) <= most {
		return string(body)
	}
	return fmt.Sprintf("%s… (%d bytes)", body[:most], len(body))
}
