package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// brokenKind is a kind that no apiserver can read as v2: what converts its objects answers nowhere.
const brokenKind = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"wrecks.faults.weir.test"},
"spec":{"group":"faults.weir.test","scope":"Namespaced","names":{"plural":"wrecks","singular":"wreck","kind":"Wreck","listKind":"WreckList"},
"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}],
"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/convert"}}}}}`

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	wrecks      = "/apis/faults.weir.test/v2/wrecks"
)

// TestRF05_OneBrokenKindStopsNoOther asks for a kind that can't be read, and restarts processes that know it. The others
// are served as ever; the broken one fails as it does at upstream, until it is repaired.
func TestRF05_OneBrokenKindStopsNoOther(t *testing.T) {
	awaitWhole(t, fleet)
	upstream := plane.Upstream(cluster.AdminToken, "faults-direct/"+t.Name())
	defer upstream.Close()
	makeBrokenKind(t, upstream)
	if answer := upstream.Must(t, client.Request{Path: wrecks}); answer.Status < 400 {
		t.Fatalf("upstream reads the broken kind: %d", answer.Status)
	}
	watching := t.Context()
	for _, endpoint := range plane.Weir.Endpoints {
		assertBrokenAsUpstream(t, endpoint)
		c := client.New(endpoint, cluster.AdminToken, "faults-broken/"+t.Name())
		defer c.Close()
		// A watch asks for a mirror of it, which can't be; what comes of the watch is upstream's to say.
		go func() {
			if stream, err := c.Watch(watching, wrecks+"?watch=1&resourceVersion=0"); err == nil {
				stream.Close()
			}
		}()
	}
	for _, member := range []*cluster.Member{fleet.Node(0, 0), fleet.Proxies[0]} {
		if err := member.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	awaitWhole(t, fleet)
	for _, endpoint := range plane.Weir.Endpoints {
		c := client.New(endpoint, cluster.AdminToken, "faults-broken/"+t.Name())
		defer c.Close()
		for _, k := range kinds {
			header := c.Get(t, k.in("")+"?resourceVersion=0").Header
			if by := header.Get(client.AnsweredBy); !client.FromMirror(header) {
				t.Errorf("%s: %s beside a broken kind is answered by %q", endpoint.Name, k.plural, by)
			}
		}
		assertBrokenAsUpstream(t, endpoint)
	}
	repair := []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	if _, err := upstream.Write(t.Context(), http.MethodPatch, definitions+"/wrecks.faults.weir.test", repair); err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range plane.Weir.Endpoints {
		c := client.New(endpoint, cluster.AdminToken, "faults-broken/"+t.Name())
		defer c.Close()
		wait.Eventually(t, endpoint.Name+" serves the repaired kind", patience, func() error {
			answer, err := c.Send(t.Context(), client.Request{Path: wrecks})
			if err == nil && answer.Status != http.StatusOK {
				err = fmt.Errorf("%d %s", answer.Status, client.Excerpt(answer.Body))
			}
			return err
		})
	}
}

// makeBrokenKind defines the kind and makes an object of it, which is stored without being converted.
func makeBrokenKind(t *testing.T, upstream *client.Client) {
	t.Helper()
	if _, err := upstream.Write(t.Context(), http.MethodPost, definitions, []byte(brokenKind)); err != nil {
		t.Fatal(err)
	}
	object := []byte(`{"apiVersion":"faults.weir.test/v1","kind":"Wreck","metadata":{"name":"one"}}`)
	wait.Eventually(t, "an object of the broken kind", patience, func() error {
		_, err := upstream.Write(t.Context(), http.MethodPost, "/apis/faults.weir.test/v1/namespaces/default/wrecks", object)
		return err
	})
}

// assertBrokenAsUpstream demands an answer that one of the apiservers gives too. They differ: one may have the kind in its
// cache and can't read it from the store, the other can't fill its cache.
func assertBrokenAsUpstream(t *testing.T, endpoint client.Endpoint) {
	t.Helper()
	c := client.New(endpoint, cluster.AdminToken, "faults-broken/"+t.Name())
	defer c.Close()
	got := c.Must(t, client.Request{Path: wrecks})
	if by := got.Header.Get(client.AnsweredBy); !strings.HasPrefix(by, "passed; ") {
		t.Errorf("%s: the broken kind is answered by %q", endpoint.Name, by)
	}
	var given []int
	for _, instance := range plane.Instances {
		upstream := client.New(instance.Direct(), cluster.AdminToken, "faults-direct/"+t.Name())
		defer upstream.Close()
		given = append(given, upstream.Must(t, client.Request{Path: wrecks}).Status)
	}
	if !slices.Contains(given, got.Status) {
		t.Errorf("%s: the broken kind gives %d, the apiservers give %v: %s", endpoint.Name, got.Status, given, client.Excerpt(got.Body))
	}
}
