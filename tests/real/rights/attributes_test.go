package rights

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"weir.dev/tests/real/client"
)

// TestAU05_UpstreamIsAskedAboutTheWholeRequest compares what the authorizer is asked when a caller reads at upstream with
// what it is asked when weir has the caller judged: the same attributes, selectors among them.
func TestAU05_UpstreamIsAskedAboutTheWholeRequest(t *testing.T) {
	t.Parallel()
	if plane.Weir.Plain {
		t.Skip("nobody is judged in an apiserver's place")
	}
	const name = "heard"
	give(t, grant{To: user(name), Rules: []rbacv1.PolicyRule{rights([]string{"impersonate"}, core, []string{"nothing"})}})
	weir, upstream := through(t, name), direct(t, name)
	for _, c := range collections {
		for _, q := range c.questions() {
			judge.listen(name)
			upstream.Must(t, client.Request{Path: q.path})
			asked := texts(t, name)
			judge.listen(name)
			weir.Must(t, client.Request{Path: q.path})
			for _, text := range texts(t, name) {
				// Who the caller is may be asked besides; that says nothing of rights.
				isName := strings.Contains(text, `"resource":"selfsubjectreviews"`)
				if !isName && !slices.Contains(asked, text) {
					t.Errorf("%s: the authorizer was asked about %s, and by upstream itself about %s", q.path, text, strings.Join(asked, " and "))
				}
			}
		}
	}
}

// texts are the attributes that the webhook was asked about.
func texts(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, attributes := range judge.heard(name) {
		text, err := json.Marshal(attributes)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(text))
	}
	return found
}

// TestAU05_NodesReadByTheirSelectors has kubelets read pods: one reads those that are bound to it, and no others, whoever asked
// before and whatever is remembered.
func TestAU05_NodesReadByTheirSelectors(t *testing.T) {
	t.Parallel()
	weir, upstream := through(t, "node"), direct(t, "node")
	of := func(node string) string { return "&fieldSelector=spec.nodeName%3D" + node }
	for round := range 3 {
		for _, form := range []string{"", short, whole} {
			for _, selector := range []string{of("gate-1"), of("gate-2"), "", "&labelSelector=app%3Dpump", of("gate-1") + "%2Cmetadata.name%21%3Dpump"} {
				request := client.Request{Path: "/api/v1/pods?resourceVersion=0" + form + selector}
				want, got := upstream.Must(t, request), weir.Must(t, request)
				what := fmt.Sprintf("round %d: %s", round, request.Path)
				if err := compare(got, want); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				mayRead := strings.HasPrefix(selector, of("gate-1"))
				if mayRead != (want.Status == 200) {
					t.Fatalf("%s: upstream says %d", what, want.Status)
				}
				if !plane.Weir.Plain && client.FromMirror(got.Header) != mayRead {
					t.Errorf("%s: %s is %q", what, client.AnsweredBy, got.Header.Get(client.AnsweredBy))
				}
			}
		}
	}
}
