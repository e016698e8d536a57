package suite

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// serialOf is the number of the certificate that a new connection is shown.
func serialOf(t *testing.T, at client.Endpoint) string {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(at.CA)
	connection, err := tls.Dial("tcp", strings.TrimPrefix(at.URL, "https://"), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestANewCertificateIsForNewConnectionsAndOpenWatchesGoOn replaces the files of a listener's certificate while a client
// watches: first with a key that does not fit, then with a pair.
func TestANewCertificateIsForNewConnectionsAndOpenWatchesGoOn(t *testing.T) {
	t.Parallel()
	if plane.Weir.Plain {
		t.Skip("an apiserver's own certificates are not ours to replace")
	}
	const name = "replaced"
	w, err := plane.StartEverywhere(t.Context(), name, []string{"configmaps"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	at, space := w.Endpoint(0), namespace(t)
	reader := client.New(at, cluster.AdminToken, agent(t, "reader"))
	t.Cleanup(reader.Close)
	first := serialOf(t, at)
	body := func(name string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
	}
	upstream := direct(t, cluster.AdminToken)
	revision := write(t, upstream, http.MethodPost, configMaps.in(space), body("before"))
	stream := watchMirrored(t, reader, fmt.Sprintf("%s?watch=1&resourceVersion=%d", configMaps.in(space), revision))
	defer stream.Close()

	if err := plane.Spoil(name); err != nil {
		t.Fatal(err)
	}
	warned := func() error {
		if !strings.Contains(w.Process().Tail(), "the old ones go on") {
			return fmt.Errorf("nothing was said")
		}
		return nil
	}
	wait.Eventually(t, "the key that does not fit is noticed", 30*time.Second, warned)
	if still := serialOf(t, at); still != first {
		t.Errorf("the certificate is %s after a key that does not fit, it was %s", still, first)
	}
	if err := plane.Reissue(name); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, "the new certificate is shown", 30*time.Second, func() error {
		if serialOf(t, at) == first {
			return fmt.Errorf("still the old one")
		}
		return nil
	})
	write(t, upstream, http.MethodPost, configMaps.in(space), body("after"))
	if event := stream.Must(t, 10*time.Second); event.Type != "ADDED" {
		t.Errorf("the watch went on with %s", event.Type)
	}
}
