package deploy

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// ticksFile has objects for ticks and the right to write them.
const ticksFile = "deploy/kubernetes/optional/ticks.yaml"

// ticked are the kinds of the file, and where their collections are.
var ticked = map[string]string{
	"configmaps":                      "/api/v1/configmaps",
	"services":                        "/api/v1/services",
	"endpointslices.discovery.k8s.io": "/apis/discovery.k8s.io/v1/endpointslices",
}

// TestTicksNeedNoMoreThanTheRightsOfTheFile runs weir as the shards, and has it prove kinds fresh in which nothing happens.
func TestTicksNeedNoMoreThanTheRightsOfTheFile(t *testing.T) {
	p := reached(t, installed)
	if out, err := p.kubectl("", "apply", "--server-side", "--validate=strict", "--warnings-as-errors", "--filename", ticksFile); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for kind := range ticked {
		awaitRight(t, p, kind)
	}
	began := time.Now()
	weir := startTicking(t, p)
	defer weir.Close()
	admin := p.Upstream(cluster.AdminToken, "weir-deploy/elsewhere")
	defer admin.Close()
	for kind, path := range ticked {
		const rounds = 10
		byTick := 0
		for range rounds {
			// Upstream's revision goes on, and nothing happens to the kind.
			secret := []byte(`{"metadata":{"generateName":"elsewhere-"}}`)
			if _, err := admin.Write(t.Context(), http.MethodPost, "/api/v1/namespaces/"+namespace+"/secrets", secret); err != nil {
				t.Fatal(err)
			}
			if weir.Get(t, path).Header.Get(client.AnsweredBy) == "mirror; tick" {
				byTick++
			}
		}
		t.Logf("%s: %d of %d by ticks", kind, byTick, rounds)
		if byTick == 0 {
			t.Errorf("no list of %s was proved by a tick", kind)
		}
	}
	judgeTicks(t, p, began)
}

// account is the shards' identity.
func account(t *testing.T) string {
	found := theManifests(t).accounts[0]
	return fmt.Sprintf("system:serviceaccount:%s:%s", found.Namespace, found.Name)
}

// awaitRight waits until the apiserver knows of the right to tick: weir is content with no for a minute. The right to write
// anything else must not come with it.
func awaitRight(t *testing.T, p *plane, kind string) {
	t.Helper()
	may := func(verb, what string) bool {
		// An exit code that is not 0 is a no.
		out, _ := p.kubectl("", "auth", "can-i", verb, what, "--namespace", namespace, "--as", account(t))
		return strings.TrimSpace(out) == "yes"
	}
	wait.Eventually(t, "the right of the shards to patch "+kind+"/weir-tick", 20*time.Second, func() error {
		if !may("patch", kind+"/weir-tick") {
			return errors.New("not yet")
		}
		return nil
	})
	for _, verb := range []string{"get", "update", "delete", "create"} {
		if may(verb, kind+"/weir-tick") {
			t.Errorf("the shards may %s %s/weir-tick", verb, kind)
		}
	}
	if may("patch", kind+"/other") || may("patch", kind) {
		t.Errorf("the shards may patch other %s", kind)
	}
}

// startTicking starts weir as one process with the shards' identity.
func startTicking(t *testing.T, p *plane) *client.Client {
	t.Helper()
	kubeconfig, err := p.WriteKubeconfig("ticking", p.B.Direct(), accountToken(t, p))
	if err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "weir.kubeconfig")
	process := &pod{name: "serve", dir: t.TempDir()}
	var kinds []string
	for kind := range ticked {
		kinds = append(kinds, kind)
	}
	process.start(t, []string{
		"serve", "--kubeconfig=" + kubeconfig, "--listen=127.0.0.1:0", "--write-kubeconfig=" + written,
		"--mirror=" + strings.Join(kinds, ","), "--tick=" + namespace,
	})
	process.line(t, "ready: ")
	return clientOf(t, written)
}

// judgeTicks wants that the shards' identity wrote the tick objects and nothing else, at most five times a second, and that
// nothing was refused to it.
func judgeTicks(t *testing.T, p *plane, since time.Time) {
	t.Helper()
	log := audit.NewLog(p.B)
	entries, err := log.Select(audit.Filter{User: account(t), Since: since})
	if err != nil {
		t.Fatal(err)
	}
	times := map[string][]time.Time{}
	for _, entry := range entries {
		if entry.ResponseStatus.Code == http.StatusForbidden && !entry.IsOfItsOwnAccord() {
			t.Errorf("upstream refused %s", entry.URI)
		}
		if slices.Contains([]string{"get", "list", "watch"}, entry.Verb) {
			continue
		}
		object := entry.ObjectRef
		if entry.Verb != "patch" || object.Namespace != namespace || object.Name != "weir-tick" {
			t.Errorf("the shards did %s %s", entry.Verb, entry.URI)
			continue
		}
		times[object.Resource] = append(times[object.Resource], entry.Received)
	}
	if len(times) != len(ticked) {
		t.Errorf("ticks of %d kinds, not of %d", len(times), len(ticked))
	}
	for kind, received := range times {
		slices.SortFunc(received, time.Time.Compare)
		for i := range received[min(5, len(received)):] {
			// What was sent 200 ms apart may come a little closer.
			if apart := received[i+5].Sub(received[i]); apart < 900*time.Millisecond {
				t.Errorf("%s: six ticks within %s", kind, apart)
			}
		}
	}
}
