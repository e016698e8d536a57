package cluster

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"weir.dev/tests/real/client"
)

// Faults are the lies that a stand-in can be made to tell, to show that the suite notices each. They are told of answers
// that a mirror would give; the rest passes.
var Faults = map[string]Fault{
	"drop":           {Line: func(n int, line string) string { return unless(n%4 == 3, line) }},
	"repeat":         {Line: func(n int, line string) string { return line + unless(n%4 != 3, line) }},
	"early bookmark": {Line: raiseBookmark},
	"short list":     {List: dropLastItem},
	"stale list":     {List: keepFirst()},
	"whole shards":   {Query: func(q url.Values) { q.Del("shardSelector") }},
	"bare deletion":  {Line: func(_ int, line string) string { return unless(strings.HasPrefix(line, `{"type":"DELETED"`), line) }},
	"late end":       {Line: func(_ int, line string) string { return unless(strings.Contains(line, "initial-events-end"), line) }},
}

// Fault changes one thing of each answer; what is nil is left as it is.
type Fault struct {
	Line  func(n int, line string) string // the n-th line of a stream, its end included
	List  func(path string, body []byte) []byte
	Query func(url.Values)
}

func unless(drop bool, line string) string {
	if drop {
		return ""
	}
	return line
}

func raiseBookmark(_ int, line string) string {
	if !strings.HasPrefix(line, `{"type":"BOOKMARK"`) {
		return line
	}
	return strings.Replace(line, `"resourceVersion":"`, `"resourceVersion":"9`, 1)
}

func dropLastItem(_ string, body []byte) []byte {
	last := bytes.LastIndex(body, []byte(`,{"metadata"`))
	end := bytes.LastIndex(body, []byte("]}"))
	if last < 0 || end < last {
		return body
	}
	return append(bytes.Clone(body[:last]), body[end:]...)
}

// keepFirst answers each path for ever with what it was answered first.
func keepFirst() func(string, []byte) []byte {
	var kept sync.Map
	return func(path string, body []byte) []byte {
		first, _ := kept.LoadOrStore(path, body)
		return first.([]byte)
	}
}

// serveFault puts a server that tells one lie in front of an endpoint. It ends with the process.
func (c *Cluster) serveFault(name string, behind client.Endpoint) (client.Endpoint, error) {
	fault, known := Faults[name]
	if !known {
		return client.Endpoint{}, fmt.Errorf("no fault %q", name)
	}
	certificate, err := tls.LoadX509KeyPair(c.pki.file("server.crt"), c.pki.file("server.key"))
	if err != nil {
		return client.Endpoint{}, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(behind.CA)
	target, err := url.Parse(behind.URL)
	if err != nil {
		return client.Endpoint{}, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if query := r.In.URL.Query(); fault.Query != nil && query.Has("shardSelector") {
				fault.Query(query)
				r.Out.URL.RawQuery = query.Encode()
			}
		},
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableCompression: true},
		ModifyResponse: fault.distort,
		FlushInterval:  -1,
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return client.Endpoint{}, err
	}
	server := &http.Server{Handler: proxy, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	go server.ServeTLS(listener, "", "")
	return client.Endpoint{Name: "faulty", URL: "https://" + listener.Addr().String(), CA: behind.CA}, nil
}

func (f Fault) distort(response *http.Response) error {
	query := response.Request.URL.Query()
	switch streamed := query.Has("watch"); {
	case response.StatusCode != http.StatusOK || query.Get("resourceVersion") == "":
	case streamed && f.Line != nil:
		response.Body = distortLines(response.Body, f.Line)
	case !streamed && f.List != nil && query.Get("resourceVersion") == "0":
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		body = f.List(response.Request.URL.Path, body)
		response.Body = io.NopCloser(bytes.NewReader(body))
		response.ContentLength = int64(len(body))
		response.Header.Set("Content-Length", fmt.Sprint(len(body)))
	}
	return nil
}

func distortLines(body io.ReadCloser, change func(int, string) string) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewReader(body)
		for n := 1; ; n++ {
			line, err := lines.ReadString('\n')
			if err != nil {
				writer.CloseWithError(err)
				return
			}
			if _, err := io.WriteString(writer, change(n, line)); err != nil {
				return
			}
		}
	}()
	return reader
}
