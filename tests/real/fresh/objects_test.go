package fresh

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// kind is a namespaced kind whose objects need nothing but a name.
type kind struct {
	name       string
	apiVersion string
	root       string // of the API
	plural     string
}

var (
	configMaps      = kind{"ConfigMap", "v1", "/api/v1", "configmaps"}
	serviceAccounts = kind{"ServiceAccount", "v1", "/api/v1", "serviceaccounts"}
	limitRanges     = kind{"LimitRange", "v1", "/api/v1", "limitranges"}
	gauges          = kind{"Gauge", "metering.weir.test/v1", "/apis/metering.weir.test/v1", "gauges"}
)

// in is the collection in a namespace, or over all of them.
func (k kind) in(namespace string) string {
	return client.CollectionPath(k.root, namespace, k.plural)
}

// object is a new object, or a patch of one, with a label whose value tells versions apart.
func (k kind) object(name string, version int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"version":"v%d"}}}`,
		k.apiVersion, k.name, name, version)
}

// namespace makes a namespace for one test.
func namespace(t testing.TB, role string) string {
	t.Helper()
	name := fmt.Sprintf("fresh-%s-%d", role, serial.Add(1))
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	if _, err := write(t.Context(), direct(t), http.MethodPost, "/api/v1/namespaces", body); err != nil {
		t.Fatal(err)
	}
	return name
}

// write changes something and returns the revision that upstream acknowledged; 0 for a deletion that was answered with a
// status.
func write(ctx context.Context, c *client.Client, method, path string, body []byte) (uint64, error) {
	answer, err := c.Write(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	object, err := client.ParseObject(answer.Body)
	return object.RV(), err
}

// mustWrite is write for tests.
func mustWrite(t testing.TB, method, path string, body []byte) uint64 {
	t.Helper()
	rv, err := write(t.Context(), direct(t), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return rv
}

// direct is a client of the apiserver that is never disturbed.
func direct(t testing.TB) *client.Client {
	c := plane.Upstream(cluster.AdminToken, agent("direct"))
	t.Cleanup(c.Close)
	return c
}

// caller is a client of weir.
func caller(t testing.TB, endpoint client.Endpoint, role string) *client.Client {
	c := client.New(endpoint, cluster.AdminToken, agent(role))
	t.Cleanup(c.Close)
	return c
}

// agent is a user agent that only one client of the run has.
func agent(role string) string { return fmt.Sprintf("fresh-%s/%d", role, serial.Add(1)) }
