package suite

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
	"weir.dev/tests/real/wait"
)

// TestSE03_FieldSelectorOfACustomResource follows a field that a definition made selectable.
func TestSE03_FieldSelectorOfACustomResource(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	upstream, weir := direct(t, cluster.AdminToken), mirrored(t, cluster.AdminToken)
	from := parseList(t, upstream.Get(t, gauges.in(space)).Body).RV()
	color := func(color string) []byte { return fmt.Appendf(nil, `{"spec":{"color":%q}}`, color) }
	write(t, upstream, http.MethodPost, gauges.in(space), gauges.object("g", ""))
	for _, next := range []string{"red", "blue", "red", "red2", "red"} {
		write(t, upstream, http.MethodPatch, gauges.in(space)+"/g", color(next))
	}
	last := write(t, upstream, http.MethodPost, gauges.in(space), gauges.object("h", ""))
	awaitMirror(t, weir, gauges.in(space), last)
	for _, selector := range []string{"spec.color%3Dred", "spec.color!%3Dred", "spec.color%3D", "spec.color%3Dred,metadata.name%3Dg"} {
		query := fmt.Sprintf("%s?watch=1&timeoutSeconds=2&resourceVersion=%d&fieldSelector=%s", gauges.in(space), from, selector)
		t.Run(selector, func(t *testing.T) {
			t.Parallel()
			assertSameStream(t, query, mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken))
		})
	}
}

// TestSE05_NamespacesWithACommonPrefix writes into the longer of two names and watches the shorter.
func TestSE05_NamespacesWithACommonPrefix(t *testing.T) {
	t.Parallel()
	upstream, weir := direct(t, cluster.AdminToken), mirrored(t, cluster.AdminToken)
	short := namespace(t)
	long := short + "-a"
	write(t, upstream, http.MethodPost, "/api/v1/namespaces", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, long))
	for _, k := range bothKinds {
		from := beginning(t, k, short)
		recorder := record.StartAt(t, upstream, k.in(short), from)
		write(t, upstream, http.MethodPost, k.in(long), k.object("other", ""))
		last := write(t, upstream, http.MethodPost, k.in(short), k.object("own", ""))
		if err := recorder.Await(last, patience); err != nil {
			t.Fatal(err)
		}
		events := watchMirrored(t, weir, fmt.Sprintf("%s?watch=1&resourceVersion=%d", k.in(short), from)).Take(t, 1, patience)
		report(t, k.plural, record.CheckWatch(recorder.History, record.All, record.Watched{After: from, UpTo: last, Events: events}))
		if list := awaitMirror(t, weir, k.in(short), last); len(list.Items) != 2 {
			t.Errorf("%s: %d objects in %s, want two", k.plural, len(list.Items), short)
		}
	}
}

// TestSE10_NamespacesAreObjectsToo reads namespaces by name in every way there is.
func TestSE10_NamespacesAreObjectsToo(t *testing.T) {
	t.Parallel()
	weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	for _, query := range []string{"?resourceVersion=0", "?resourceVersion=1"} {
		path := "/api/v1/namespaces/lock" + query
		assertSameAnswer(t, path, getMirrored(t, weir, path), upstream.Get(t, path))
	}
	for _, path := range []string{
		"/api/v1/namespaces?fieldSelector=metadata.name%3Dlock&watch=1&resourceVersion=0&timeoutSeconds=1&allowWatchBookmarks=true",
		"/api/v1/watch/namespaces/lock?resourceVersion=0&timeoutSeconds=1",
		"/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3Dlock&watch=1&resourceVersion=0&timeoutSeconds=1",
	} {
		assertSameStream(t, path, weir, upstream)
	}
}

// TestEN04_NumbersStayAsTheyAre puts numbers that no float can hold into a custom resource.
func TestEN04_NumbersStayAsTheyAre(t *testing.T) {
	t.Parallel()
	weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	const path = "/apis/metering.weir.test/v1/depots"
	from := parseList(t, upstream.Get(t, path).Body).RV()
	body := `{"apiVersion":"metering.weir.test/v1","kind":"Depot","metadata":{"name":"numbers","labels":{"numbers":"yes"}},"spec":{"a":9223372036854775807,` +
		`"b":-9223372036854775808,"c":9007199254740993,"d":1.0,"e":1e21,"f":0.1,"g":-0.0,"text":"\u2028 < \u0000 & 😀"}}`
	last := write(t, upstream, http.MethodPost, path, []byte(body))
	awaitMirror(t, weir, path, last)
	exact := fmt.Sprintf("%s?labelSelector=numbers&resourceVersion=%d&resourceVersionMatch=Exact", path, last)
	assertSameAnswer(t, "list", getMirrored(t, weir, exact), upstream.Get(t, exact))
	assertSameStream(t, fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=1&labelSelector=numbers", path, from), weir, upstream)
}

// TestPG12_CraftedTokenReadsNothingElse hands tokens in that were never given out.
func TestPG12_CraftedTokenReadsNothingElse(t *testing.T) {
	t.Parallel()
	weir, upstream := through(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	rv := parseList(t, weir.Get(t, configMaps.in("lock")+"?resourceVersion=0").Body).RV()
	for _, start := range []string{"a", "/a", "m/\\u0000", "../lock-a/a", "lock/levels", "/../../secrets/lock/key", "zzz", "/", ".", "levels\\u0000", "//levels"} {
		for _, revision := range []int64{int64(rv), -1, -7, 0} {
			path := fmt.Sprintf("%s?continue=%s", configMaps.in("lock"), writeToken(revision, start))
			got, want := weir.Must(t, client.Request{Path: path}), upstream.Must(t, client.Request{Path: path})
			if revision < 0 { // a token of the newest state names a revision of the moment
				got, want = movingParts(got), movingParts(want)
			}
			assertSameAnswer(t, fmt.Sprintf("start %q at %d", start, revision), got, want)
		}
	}
}

// TestRL06_KindsThatCannotBeWatched asks for what upstream refuses.
func TestRL06_KindsThatCannotBeWatched(t *testing.T) {
	t.Parallel()
	weir, upstream := through(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	for _, path := range []string{
		"/api/v1/componentstatuses?watch=1", "/apis/authorization.k8s.io/v1/subjectaccessreviews?resourceVersion=0",
		"/apis/authorization.k8s.io/v1/subjectaccessreviews?watch=1", "/api/v1/namespaces/lock/bindings?watch=1&resourceVersion=0",
	} {
		request := client.Request{Path: path}
		assertSameAnswer(t, path, weir.Must(t, request), upstream.Must(t, request))
	}
}

// TestRL08_DiscoveryKeepsItsTags asks for discovery and OpenAPI in their forms, and again with the tag that came.
func TestRL08_DiscoveryKeepsItsTags(t *testing.T) {
	t.Parallel()
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	weir := through(t, cluster.AdminToken)
	for _, r := range []client.Request{
		{Path: "/apis", Header: http.Header{"Accept": {aggregated}}}, {Path: "/api", Header: http.Header{"Accept": {aggregated}}},
		{Path: "/openapi/v2"}, {Path: "/openapi/v3/api/v1"},
	} {
		// What it describes may change meanwhile, and two apiservers may describe it differently for a moment.
		wait.Eventually(t, r.Path+" is not sent twice", 20*time.Second, func() error {
			first := weir.Must(t, r)
			again := client.Request{Path: r.Path, Header: http.Header{"If-None-Match": {first.Header.Get("Etag")}}}
			if accept := r.Header.Get("Accept"); accept != "" {
				again.Header.Set("Accept", accept)
			}
			if answer := weir.Must(t, again); answer.Status != http.StatusNotModified {
				return fmt.Errorf("the tag %q is answered with %d", first.Header.Get("Etag"), answer.Status)
			}
			return nil
		})
	}
}

// TestSH07_NamespaceRangesOfClusterScopedObjects falls into one range: the hash of nothing.
func TestSH07_NamespaceRangesOfClusterScopedObjects(t *testing.T) {
	t.Parallel()
	weir := mirrored(t, cluster.AdminToken)
	for _, path := range []string{"/api/v1/nodes", "/apis/metering.weir.test/v1/depots"} {
		rv := parseList(t, getMirrored(t, weir, path+"?resourceVersion=0").Body).RV()
		for _, field := range []string{"namespace", "uid"} {
			assertPartition(t, fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact", path, rv), partition(field, 4))
		}
	}
}

// TestSH10_SpellingsOfTheSelectorInTheQuery are all one selector.
func TestSH10_SpellingsOfTheSelectorInTheQuery(t *testing.T) {
	t.Parallel()
	weir, reference := mirrored(t, cluster.AdminToken), gated(t)
	rv := parseList(t, getMirrored(t, weir, configMaps.in("lock")+"?resourceVersion=0").Body).RV()
	half := partition("uid", 2)[1].String()
	for _, spelling := range []string{
		url.QueryEscape(half), url.PathEscape(half), "%20" + url.QueryEscape(half) + "%0A",
		url.QueryEscape(half) + "&shardSelector=x",
		"shardRange(object.metadata.uid,'0x8000000000000000','0x10000000000000000')",
		"shardRange(object.metadata.uid,%220x8000000000000000%22,%220x10000000000000000%22)",
		"(shardRange(object.metadata.uid,'0x8000000000000000','0xc000000000000000')%7C%7CshardRange(object.metadata.uid,'0xc000000000000000','0x10000000000000000'))",
	} {
		path := fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact&shardSelector=%s", configMaps.in("lock"), rv, spelling)
		assertSameAnswer(t, spelling, getMirrored(t, weir, path), reference.Get(t, path))
	}
}

// TestCL08_ManyWatchesOfOneClient opens more streams than one connection of an apiserver takes.
func TestCL08_ManyWatchesOfOneClient(t *testing.T) {
	t.Parallel()
	const watches = 300
	space := namespace(t)
	weir, upstream := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken)
	from := beginning(t, configMaps, space)
	var streams []*client.Stream
	for range watches {
		streams = append(streams, watchMirrored(t, weir, fmt.Sprintf("%s?watch=1&resourceVersion=%d", configMaps.in(space), from)))
	}
	rv := write(t, upstream, http.MethodPost, configMaps.in(space), configMaps.object("seen", ""))
	for i, stream := range streams {
		if event := stream.Must(t, patience); event.Meta().RV() != rv {
			t.Errorf("watch %d got %s", i, event.Line)
		}
	}
}
