package faults

import (
	"fmt"
	"net/http"
	"testing"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
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
	want := upstream.Must(t, client.Request{Path: wrecks})
	if want.Status < 400 {
		t.Fatalf("upstream reads the broken kind: %d", want.Status)
	}
	for _, endpoint := range plane.Weir.Endpoints {
		assertBrokenAsUpstream(t, endpoint, want)
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
			if by := c.Get(t, k.in("")+"?resourceVersion=0").Header.Get("Weir-Answered-By"); by != "mirror" {
				t.Errorf("%s: %s beside a broken kind is answered by %q", endpoint.Name, k.plural, by)
			}
		}
		assertBrokenAsUpstream(t, endpoint, want)
	}
	repair := []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	if _, err := upstream.Write(t.Context(), http.MethodPatch, definitions+"/wrecks.faults.weir.test", repair); err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range plane.Weir.Endpoints {
		c := client.New(endpoint, cluster.AdminToken, "faults-broken/"+t.Name())
		defer c.Close()
		eventually(t, endpoint.Name+" serves the repaired kind", patience, func() error {
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
	eventually(t, "an object of the broken kind", patience, func() error {
		_, err := upstream.Write(t.Context(), http.MethodPost, "/apis/faults.weir.test/v1/namespaces/default/wrecks", object)
		return err
	})
}

func assertBrokenAsUpstream(t *testing.T, endpoint client.Endpoint, want client.Answer) {
	t.Helper()
	c := client.New(endpoint, cluster.AdminToken, "faults-broken/"+t.Name())
	defer c.Close()
	for _, query := range []string{"", "?resourceVersion=0"} {
		if got := c.Must(t, client.Request{Path: wrecks + query}); got.Status != want.Status {
			t.Errorf("%s: the broken kind%s gives %d, upstream %d %s", endpoint.Name, query, got.Status, want.Status, client.Excerpt(want.Body))
		}
	}
}
