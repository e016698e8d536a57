package suite

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

const whoPath = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

// pair is one caller at weir and at upstream.
type pair struct{ weir, upstream *client.Client }

func showing(t *testing.T, shown cluster.Shown, token string) pair {
	t.Helper()
	certificate, err := plane.Certificate(shown)
	if err != nil {
		t.Fatal(err)
	}
	p := pair{
		client.NewShowing(endpoint(t), certificate, token, agent(t, "shown")),
		client.NewShowing(plane.B.Direct(), certificate, token, agent(t, "direct")),
	}
	t.Cleanup(p.weir.Close)
	t.Cleanup(p.upstream.Close)
	return p
}

// who is the user of a review, or the code and body of a refusal.
func who(t *testing.T, c *client.Client, header http.Header) any {
	t.Helper()
	all := http.Header{"Content-Type": {"application/json"}}
	for name, values := range header {
		all[name] = values
	}
	answer := c.Must(t, client.Request{Method: http.MethodPost, Path: whoPath, Header: all, Body: []byte(`{}`)})
	var review struct {
		Status struct {
			UserInfo map[string]any `json:"userInfo"`
		} `json:"status"`
	}
	if err := json.Unmarshal(answer.Body, &review); answer.Status != http.StatusCreated || err != nil {
		return fmt.Sprint(answer.Status, string(answer.Body))
	}
	return review.Status.UserInfo
}

// shownByClients are the certificates of the suite, good and bad.
var shownByClients = map[string]cluster.Shown{
	"admin":       {Name: "shown-admin", Groups: []string{"system:masters"}},
	"developer":   {Name: "shown-dev", Groups: []string{"devs", "a,b", "system:readers"}, UID: "7-7"},
	"named":       {Name: "Jörg: von und zu", Groups: []string{"größe"}},
	"nameless":    {Groups: []string{"system:masters"}},
	"anonymous":   {Name: "system:anonymous"},
	"expired":     {Name: "shown-admin", Groups: []string{"system:masters"}, Expired: true},
	"untrusted":   {Name: "shown-admin", Groups: []string{"system:masters"}, Of: cluster.OfNobody},
	"of a proxy":  {Name: "shown-admin", Groups: []string{"system:masters"}, Of: cluster.OfProxies},
	"as a proxy":  {Name: "proxy", Groups: []string{"system:masters"}, Of: cluster.OfClients},
	"node":        {Name: "system:node:shown", Groups: []string{"system:nodes"}},
	"of a reader": {Name: "reader", Groups: []string{"readers"}},
}

// TestAU13_CertificatesMakeTheSameUsersAsAtUpstream compares whom clients are taken for, and what they are answered, with what
// upstream says to the same certificate: with no token beside it, with a good one, and with a bad one.
func TestAU13_CertificatesMakeTheSameUsersAsAtUpstream(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	for name, shown := range shownByClients {
		for _, token := range []string{"", cluster.ReaderToken, "wrong"} {
			callers := showing(t, shown, token)
			if ours, theirs := who(t, callers.weir, nil), who(t, callers.upstream, nil); !reflect.DeepEqual(ours, theirs) {
				t.Errorf("%s with %q is %v at weir and %v at upstream", name, token, ours, theirs)
			}
			for _, path := range []string{
				configMaps.in(space) + "?resourceVersion=0", "/api/v1/nodes?resourceVersion=0", "/api/v1/namespaces/" + space + "/endpoints",
				"/apis/metering.weir.test/v1/gauges?limit=1", "/healthz", "/nope", "/api/v1/nope",
			} {
				ours, theirs := callers.weir.Must(t, client.Request{Path: path}), callers.upstream.Must(t, client.Request{Path: path})
				if ours.Status != theirs.Status || ours.Status != http.StatusOK && string(ours.Body) != string(theirs.Body) {
					t.Errorf("%s with %q: %s: %d %s, upstream: %d %s", name, token, path,
						ours.Status, client.Excerpt(ours.Body), theirs.Status, client.Excerpt(theirs.Body))
				}
				if want, got := theirs.Header.Get("Content-Type"), ours.Header.Get("Content-Type"); want != got {
					t.Errorf("%s with %q: %s: Content-Type is %q, upstream's %q", name, token, path, got, want)
				}
			}
		}
	}
}

// TestAU13_MirrorsAnswerCallersWithCertificates has a caller read and watch what the mirror has, and write under its own name.
func TestAU13_MirrorsAnswerCallersWithCertificates(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	admin := showing(t, shownByClients["admin"], "")
	revision := write(t, direct(t, cluster.AdminToken), http.MethodPost, configMaps.in(space),
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"first"}}`))
	path := configMaps.in(space)
	wait.Eventually(t, "the mirror has the object", 5*time.Second, func() error {
		answer := admin.weir.Get(t, path+"?resourceVersion=0")
		assertMirror(t, path, answer.Header)
		if len(parseList(t, answer.Body).Items) == 0 {
			return fmt.Errorf("empty")
		}
		return nil
	})
	stream := watchMirrored(t, admin.weir, fmt.Sprintf("%s?watch=1&resourceVersion=%d", path, revision))
	defer stream.Close()
	written, err := admin.weir.Write(t.Context(), http.MethodPost, path,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"second"}}`))
	if err != nil {
		t.Fatalf("%v %v", err, written)
	}
	logged := requests(t, audit.Filter{AgentPrefix: admin.weir.Agent, Verb: "create", Resource: "configmaps"})
	if len(logged) != 1 || logged[0].User.Username != "shown-admin" {
		t.Errorf("upstream logged %v", logged)
	}
	impersonating := client.Request{Path: "/api/v1/namespaces/" + space + "/endpoints", Header: http.Header{"Impersonate-User": {"nobody"}}}
	if ours, theirs := admin.weir.Must(t, impersonating), admin.upstream.Must(t, impersonating); ours.Status != theirs.Status || string(ours.Body) != string(theirs.Body) {
		t.Errorf("impersonating: %d %s, upstream: %d %s", ours.Status, ours.Body, theirs.Status, theirs.Body)
	}
}

// TestAU02_ACertificateSaysAllOfItsHolder sends what only a front proxy may say, from a caller whom weir passes on as one.
func TestAU02_ACertificateSaysAllOfItsHolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"developer", "as a proxy"} {
		callers := showing(t, shownByClients[name], "")
		honest := who(t, callers.upstream, nil)
		for _, header := range []http.Header{
			{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
			{"X_Remote_User": {"admin"}, "X_Remote_Group": {"system:masters"}, "X-Remote_Group": {"system:masters"}},
			{"X-Remote-Uid": {"0"}, "X-Remote-Extra-Scopes": {"all"}, "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id": {"x"}},
			{"X-Remote-User": {""}, "X-Remote-Group": {"", "system:masters"}},
		} {
			if ours := who(t, callers.weir, header); !reflect.DeepEqual(ours, honest) {
				t.Errorf("%s who says %v is %v, upstream says %v", name, header, ours, honest)
			}
		}
	}
}
