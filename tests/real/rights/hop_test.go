package rights

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// TestAU02_ConnectionRemovesNobodysIdentity names in Connection what says who asks. It is not of the connection, whatever a
// client says: a gateway that passes the header on must not be taken for its own client.
func TestAU02_ConnectionRemovesNobodysIdentity(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		"Authorization: Bearer " + cluster.ReaderToken + "\r\nConnection: keep-alive, Authorization\r\n",
		"Authorization: Bearer " + cluster.AdminToken + "\r\nImpersonate-User: bob\r\nConnection: Impersonate-User\r\n",
		"Authorization: Bearer " + cluster.AdminToken + "\r\nImpersonate-User: bob\r\nImpersonate-Group: devs\r\nConnection: close, impersonate-group, x-remote-user\r\n",
		"Authorization: Bearer " + cluster.BobToken + "\r\nX-Remote-User: admin\r\nConnection: X-Remote-User\r\n",
	} {
		for _, path := range []string{"/api/v1/namespaces/lock/secrets/key", "/api/v1/namespaces/lock/secrets?resourceVersion=0"} {
			got, want := http1(t, plane.Weir.Endpoint(0), path, header), http1(t, plane.B.Direct(), path, header)
			if got != want {
				t.Errorf("%s with\n%s: %d, upstream %d", path, header, got, want)
			}
		}
	}
}

// http1 asks over HTTP/1.1 with headers as they stand, and returns the status.
func http1(t *testing.T, endpoint client.Endpoint, path, header string) int {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(endpoint.CA)
	connection, err := tls.Dial("tcp", strings.TrimPrefix(endpoint.URL, "https://"), &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: weir\r\nAccept: application/json\r\n%s\r\n", path, header); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
