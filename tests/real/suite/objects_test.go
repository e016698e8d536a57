package suite

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// kind is a namespaced kind that tests write: one that is built in and one that is not behave differently.
type kind struct {
	name       string
	apiVersion string
	root       string // of the API
	plural     string
}

var (
	configMaps = kind{"ConfigMap", "v1", "/api/v1", "configmaps"}
	gauges     = kind{"Gauge", "metering.weir.test/v1", "/apis/metering.weir.test/v1", "gauges"}
	bothKinds  = []kind{configMaps, gauges}
)

// in is the collection in a namespace, or over all of them.
func (k kind) in(namespace string) string {
	return client.CollectionPath(k.root, namespace, k.plural)
}

// object is a new object; its labels are given as JSON pairs.
func (k kind) object(name, labels string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{%s}}}`, k.apiVersion, k.name, name, labels)
}

// namespace makes a namespace for one test. It is left behind: without controllers none is ever taken away.
func namespace(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t%d-%s", serial.Add(1), strings.ToLower(strings.NewReplacer("/", "-", "_", "-", "#", "-").Replace(t.Name())))
	name = strings.Trim(name[:min(len(name), 50)], "-")
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	write(t, direct(t, cluster.AdminToken), http.MethodPost, "/api/v1/namespaces", body)
	return name
}

// write changes something and returns the revision that upstream acknowledged.
func write(t testing.TB, c *client.Client, method, path string, body []byte) uint64 {
	t.Helper()
	answer, err := c.Write(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	object, err := client.ParseObject(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return object.RV()
}

// awaitMirror waits until weir's mirror of a collection has reached a revision, and returns the list it then gives.
func awaitMirror(t testing.TB, c *client.Client, path string, rv uint64) client.List {
	t.Helper()
	var list client.List
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	wait.Eventually(t, fmt.Sprintf("%s at %d", path, rv), 10*time.Second, func() error {
		var err error
		list, err = client.ParseList(getMirrored(t, c, path+separator+"resourceVersion=0").Body)
		if err == nil && list.RV() < rv {
			err = fmt.Errorf("it is at %d", list.RV())
		}
		return err
	})
	return list
}

// beginning writes a first object into a namespace and returns its revision as soon as weir's mirror has it. A watch from
// there is the mirror's to answer; one from a list's revision, which may be ahead of every object, needs not be.
func beginning(t testing.TB, k kind, space string) uint64 {
	t.Helper()
	rv := write(t, direct(t, cluster.AdminToken), http.MethodPost, k.in(space), k.object("beginning", ""))
	awaitMirror(t, mirrored(t, cluster.AdminToken), k.in(space), rv)
	return rv
}

func parseList(t testing.TB, body []byte) client.List {
	t.Helper()
	list, err := client.ParseList(body)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
