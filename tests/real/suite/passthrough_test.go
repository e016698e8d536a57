package suite

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// TestPF04_WritesReachUpstreamAsTheyAre sends every kind of write through weir and compares the answer with what upstream
// holds afterwards.
func TestPF04_WritesReachUpstreamAsTheyAre(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	weir, upstream := through(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	collection := configMaps.in(space)
	one := collection + "/one"
	body := func(content, text string) client.Request {
		return client.Request{Header: http.Header{"Content-Type": {content}}, Body: []byte(text)}
	}
	steps := []struct {
		method, path, content, body string
	}{
		{"POST", collection, "application/json", string(configMaps.object("one", `"a":"1"`))},
		{"POST", collection + "?dryRun=All", "application/json", string(configMaps.object("dry", `"a":"1"`))},
		{"POST", collection, "application/yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n"},
		{"PATCH", one, "application/merge-patch+json", `{"data":{"x":"<&>"}}`},
		{"PATCH", one, "application/json-patch+json", `[{"op":"add","path":"/data/y","value":"z"}]`},
		{"PATCH", one, "application/strategic-merge-patch+json", `{"metadata":{"labels":{"b":"2"}}}`},
		{"PATCH", one + "?fieldManager=suite&force=true", "application/apply-patch+yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {q: r}\n"},
	}
	for _, s := range steps {
		request := body(s.content, s.body)
		request.Method, request.Path = s.method, s.path
		answer := weir.Must(t, request)
		assertPassed(t, s.method+" "+s.path, answer.Header)
		if answer.Status >= 300 {
			t.Errorf("%s %s (%s): %d %s", s.method, s.path, s.content, answer.Status, client.Excerpt(answer.Body))
		}
		if s.path != collection && !strings.Contains(s.path, "dryRun") {
			assertSameAnswer(t, s.content, answer, upstream.Get(t, one))
		}
	}
	refused := client.Request{Method: http.MethodPost, Path: collection, Header: http.Header{"Content-Type": {"application/json"}}, Body: configMaps.object("one", "")}
	assertSameAnswer(t, "creation of what exists", weir.Must(t, refused), upstream.Must(t, refused))
	deleted := weir.Must(t, client.Request{Method: http.MethodDelete, Path: collection + "?labelSelector=b", Body: []byte(`{"propagationPolicy":"Background"}`)})
	if deleted.Status != http.StatusOK {
		t.Errorf("deletion of a collection: %d %s", deleted.Status, client.Excerpt(deleted.Body))
	}
	if left := parseList(t, upstream.Get(t, collection).Body); len(left.Items) != 1 {
		t.Errorf("%d objects are left, want one", len(left.Items))
	}
	head := client.Request{Method: http.MethodHead, Path: "/api/v1/namespaces/lock/pods/pump"}
	assertSameAnswer(t, "HEAD", weir.Must(t, head), upstream.Must(t, head))
}

// TestPF04_BodiesThatAreTooLargeAreUpstreamsToRefuse sends one beyond upstream's 3 MiB, and one just below what an object may have.
func TestPF04_BodiesThatAreTooLargeAreUpstreamsToRefuse(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	weir, upstream := through(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	for _, size := range []int{1_000_000, 4 << 20} {
		var answers []client.Answer
		for i, c := range []*client.Client{weir, upstream} {
			body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large-%d-%d"},"data":{"a":%q}}`, size, i, strings.Repeat("x", size))
			header := http.Header{"Content-Type": {"application/json"}}
			answers = append(answers, c.Must(t, client.Request{Method: http.MethodPost, Path: configMaps.in(space), Header: header, Body: body}))
		}
		if got, want := answers[0].Status, answers[1].Status; got != want {
			t.Errorf("%d bytes: %d, upstream answers %d", size, got, want)
		}
		if size > 1_000_000 {
			if answers[0].Status != http.StatusRequestEntityTooLarge {
				t.Errorf("%d bytes: %d", size, answers[0].Status)
			}
			assertSameAnswer(t, "a body that is too large", answers[0], answers[1])
		}
	}
}

// TestAuditIDReachesUpstream also shows whose name stands in the log: the caller's, with the caller's user agent.
func TestAuditIDReachesUpstream(t *testing.T) {
	t.Parallel()
	weir := through(t, cluster.ReaderToken)
	answer := weir.Must(t, client.Request{Path: configMaps.in("lock") + "/names", Header: http.Header{"Audit-ID": {"suite-marks-this"}}})
	if answer.Status != http.StatusOK {
		t.Errorf("%d %s", answer.Status, client.Excerpt(answer.Body))
	}
	if got := answer.Header.Values("Audit-Id"); fmt.Sprint(got) != "[suite-marks-this]" {
		t.Errorf("Audit-Id is %q", got)
	}
	seen := requests(t, audit.Filter{AgentPrefix: weir.Agent})
	if len(seen) != 1 || seen[0].User.Username != "reader" {
		t.Errorf("upstream saw %v, want one request of reader", seen)
	}
}

// passed are requests that only upstream can answer; weir must not add or lose a byte.
var passed = []string{
	"/apis", "/apis/apps", "/apis/apps/v1", "/api/v1", "/version", "/nothing", "/apis/none.test/v1/things",
	"/api/v1/namespaces/lock/pods/pump", "/api/v1/namespaces/lock/pods/absent", "/apis/apps/v1/namespaces/lock/deployments/pump/scale",
	"/api/v1/namespaces/lock/pods/pump/status", "/api/v1/namespaces/lock/pods/pump/log", "/api/v1/componentstatuses?watch=1",
	"/api/v1/namespaces/lock/events", "/api/v1/namespaces/lock/configmaps/absent?resourceVersion=0", "/api/v1/namespaces/lock/pods/pump?pretty=1",
	"/apis/metering.weir.test/v1/namespaces/lock/gauges/absent", "/api/v1/namespaces/lock/services/http:pump:80/proxy/a%2Fb?x=1&x=2&limit=5",
}

// TestPF05_PassedAnswersAreUpstreams compares answers that never come from a mirror.
func TestPF05_PassedAnswersAreUpstreams(t *testing.T) {
	t.Parallel()
	for _, path := range passed {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			weir, upstream := through(t, cluster.AdminToken), direct(t, cluster.AdminToken)
			got := weir.Must(t, client.Request{Path: path})
			assertPassed(t, path, got.Header)
			assertSameAnswer(t, path, movingParts(got), movingParts(upstream.Must(t, client.Request{Path: path})))
		})
	}
}

// movingParts blanks the revision of a list, which two requests may find at different places.
func movingParts(a client.Answer) client.Answer {
	if strings.HasPrefix(string(a.Body), `{"kind":"PodList"`) || strings.Contains(string(a.Body[:min(len(a.Body), 40)]), "List") {
		a.Body = withoutToken(revision.ReplaceAll(a.Body, []byte(`"resourceVersion":"…"`)))
	}
	return a
}

// TestNG12_BrowsersGetIndentedLists asks with user agents that upstream takes for people.
func TestNG12_BrowsersGetIndentedLists(t *testing.T) {
	t.Parallel()
	weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	rv := parseList(t, getMirrored(t, weir, configMaps.in("lock")+"?resourceVersion=0").Body).RV()
	for _, who := range []string{"curl/8.1", "Wget/1.2", "Mozilla/5.0 (X11)", "Mozilla/4.0", "curly", "xcurl"} {
		for _, pretty := range []string{"", "&pretty", "&pretty=", "&pretty=0", "&pretty=t", "&pretty=yes", "&notpretty=1"} {
			request := client.Request{
				Path:   fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact%s", configMaps.in("lock"), rv, pretty),
				Header: http.Header{"User-Agent": {who}},
			}
			assertSameAnswer(t, who+pretty, weir.Must(t, request), upstream.Must(t, request))
		}
	}
}

// forbidden are requests that Bob may not make; most would be answered by a mirror if he might.
var forbidden = []string{
	"/api/v1/configmaps?resourceVersion=0", "/api/v1/namespaces/lock/configmaps?resourceVersion=0", "/api/v1/namespaces/lock/configmaps",
	"/api/v1/namespaces/lock/configmaps?watch=1&resourceVersion=0", "/api/v1/watch/namespaces/lock/configmaps?resourceVersion=0",
	"/api/v1/namespaces/lock/secrets?resourceVersion=0&pretty=1", "/api/v1/namespaces/lock/secrets?fieldSelector=metadata.name%3Dkey&resourceVersion=0",
	"/api/v1/namespaces/lock/secrets/key?resourceVersion=0", "/apis/metering.weir.test/v1/depots?resourceVersion=0&limit=abc",
	"/apis/metering.weir.test/v1/namespaces/lock/gauges?watch=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	"/api/v1/namespaces//pods?resourceVersion=0", "/api/v1/namespaces/lock%2Fpods?resourceVersion=0", "/api/v1/namespaces/lock/./secrets?resourceVersion=0",
	"/api/v1/namespaces/x/../lock/secrets?resourceVersion=0", "/api/v1//namespaces/lock/secrets?resourceVersion=0", "/api/v1/namespaces/lock/secrets/?resourceVersion=0",
}

// TestAU12_NoRightNoData lets callers without rights ask, by straight paths and by crooked ones.
func TestAU12_NoRightNoData(t *testing.T) {
	upstream, mirror := direct(t, cluster.BobToken), through(t, cluster.BobToken)
	for _, path := range forbidden {
		request := client.Request{Path: path}
		want := upstream.Must(t, request)
		if want.Status < 300 {
			t.Fatalf("upstream lets bob read %s", path)
		}
		got := mirror.Must(t, request)
		assertSameAnswer(t, path, got, want)
		if client.FromMirror(got.Header) {
			t.Errorf("%s: the mirror answered bob", path)
		}
	}
	for _, token := range []string{"wrong", ""} {
		for _, path := range forbidden {
			request := client.Request{Path: path}
			stranger, reference := through(t, token), direct(t, token)
			assertSameAnswer(t, fmt.Sprintf("token %q, %s", token, path), stranger.Must(t, request), reference.Must(t, request))
		}
	}
}

// TestReaderReadsTheMirrorAsHimself is the other side: who may read is answered, and was asked about by his own name.
func TestReaderReadsTheMirrorAsHimself(t *testing.T) {
	t.Parallel()
	since := time.Now()
	weir := mirrored(t, cluster.ReaderToken)
	getMirrored(t, weir, "/api/v1/namespaces/lock/configmaps?resourceVersion=0")
	watchMirrored(t, weir, "/api/v1/namespaces/lock/configmaps?resourceVersion=0&watch=1&timeoutSeconds=1")
	if plane.Weir.Plain {
		return
	}
	reviews := audit.From(requests(t, audit.Filter{User: "reader", Since: since, Resource: "selfsubjectaccessreviews"}), audit.Review)
	if len(reviews) == 0 {
		t.Error("nobody asked upstream whether the reader may read")
	}
}

// TestAU01_AU02_IdentityHeadersChangeNothing sends the headers by which others act for a user, with and without the right to.
func TestAU01_AU02_IdentityHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	for _, token := range []string{cluster.BobToken, cluster.AdminToken, cluster.ReaderToken} {
		weir, upstream := through(t, token), direct(t, token)
		for _, header := range []http.Header{
			{"Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"}},
			{"Impersonate-User": {"bob"}},
			{"Impersonate-User": {"reader"}, "Impersonate-Group": {"readers"}},
			{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
			{"Impersonate-Group": {"system:masters"}},
		} {
			for _, path := range []string{"/api/v1/namespaces/lock/secrets?resourceVersion=0", "/api/v1/namespaces/lock/secrets/key"} {
				request := client.Request{Path: path, Header: header}
				what := fmt.Sprintf("%s %v %s", token, header, path)
				assertSameAnswer(t, what, movingParts(weir.Must(t, request)), movingParts(upstream.Must(t, request)))
			}
		}
	}
}

// TestCS03_ListWithoutRevisionIsFresh writes and asks, again and again.
func TestCS03_ListWithoutRevisionIsFresh(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		space := namespace(t)
		weir, upstream := through(t, cluster.AdminToken), direct(t, cluster.AdminToken)
		write(t, upstream, http.MethodPost, k.in(space), k.object("fresh", ""))
		for round := range 20 {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, round)
			acknowledged := write(t, upstream, http.MethodPatch, k.in(space)+"/fresh", patch)
			list := parseList(t, weir.Get(t, k.in(space)).Body)
			object, err := client.ParseObject(list.Items[0])
			if err != nil || list.RV() < acknowledged || object.RV() < acknowledged {
				t.Fatalf("%s: written at %d, a list asked for afterwards is at %d and has it at %d (%v)", k.plural, acknowledged, list.RV(), object.RV(), err)
			}
			object, err = client.ParseObject(weir.Get(t, k.in(space)+"/fresh").Body)
			if err != nil || object.RV() < acknowledged {
				t.Fatalf("%s: written at %d, got at %d (%v)", k.plural, acknowledged, object.RV(), err)
			}
		}
	}
}

// TestRL04_NewKindIsServedAtOnce defines a kind while weir runs.
func TestRL04_NewKindIsServedAtOnce(t *testing.T) {
	t.Parallel()
	weir, upstream := through(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "fresh.metering.weir.test"},
		"spec": map[string]any{
			"group": "metering.weir.test", "scope": "Cluster", "names": map[string]any{"plural": "fresh", "kind": "Fresh"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}
	body, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	write(t, upstream, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
	for _, c := range []*client.Client{upstream, weir} { // weir second: then it has two seconds
		wait.Eventually(t, c.Endpoint.Name+" serves the new kind", 10*time.Second, func() error {
			answer, err := c.Send(t.Context(), client.Request{Path: "/apis/metering.weir.test/v1/fresh"})
			if err == nil && answer.Status != http.StatusOK {
				err = fmt.Errorf("%d", answer.Status)
			}
			return err
		})
	}
	write(t, weir, http.MethodPost, "/apis/metering.weir.test/v1/fresh", []byte(`{"apiVersion":"metering.weir.test/v1","kind":"Fresh","metadata":{"name":"one"}}`))
	if list := parseList(t, weir.Get(t, "/apis/metering.weir.test/v1/fresh?resourceVersion=0").Body); len(list.Items) > 1 {
		t.Errorf("%d objects of a kind with one", len(list.Items))
	}
}
