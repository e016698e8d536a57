package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
	"weir.dev/tests/real/wait"
)

// tables and partials are the Accept headers of two other forms of a list.
const (
	tables   = "application/json;as=Table;v=v1;g=meta.k8s.io"
	partials = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// TestDS05_NoAnswerIsShortOfAShard takes every copy of one shard away from one proxy. It may refuse; it may not answer with
// the rest.
func TestDS05_NoAnswerIsShortOfAShard(t *testing.T) {
	awaitWhole(t, fleet)
	proxy := fleet.Proxies[0]
	l := startLoad(t, []client.Endpoint{fleet.Proxies[1].Endpoint()}, 7, gentle)
	c := client.New(proxy.Endpoint(), cluster.AdminToken, "faults-holes/"+t.Name())
	defer c.Close()
	for _, node := range fleet.Replicas(2) {
		link := node.From(proxy)
		link.Refuse(true)
		defer link.Heal()
		if link.Cut() == 0 {
			t.Fatalf("%s had no connection to %s", proxy.Name, node.Name)
		}
	}
	wait.Eventually(t, "the hole is known", patience, func() error {
		metrics, err := proxy.Metrics(t.Context())
		if err == nil && metrics.Sum(holes) == 0 {
			err = fmt.Errorf("no hole is counted")
		}
		return err
	})
	refused := 0
	const rounds = 12
	for range rounds {
		for _, k := range kinds {
			refused += l.assertWholeOrRefused(t, c, k)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused: was anything taken away?")
	}
	for _, node := range fleet.Replicas(2) {
		node.From(proxy).Heal()
	}
	awaitWhole(t, fleet)
	for _, k := range kinds {
		if l.assertWholeOrRefused(t, c, k) > 0 {
			t.Errorf("%s is still refused after the shard is back", k.plural)
		}
	}
	l.finish(t)
	l.assertNoRelist(t)
}

// assertWholeOrRefused asks for a collection in every form and counts the refusals.
func (l *load) assertWholeOrRefused(t *testing.T, c *client.Client, k kind) int {
	t.Helper()
	refused := 0
	for _, query := range []string{"", "?resourceVersion=0", "?limit=500", "?labelSelector=tier"} {
		for _, accept := range []string{"application/json", tables, partials} {
			answer, err := c.Send(t.Context(), client.Request{Path: k.in("") + query, Header: http.Header{"Accept": {accept}}})
			if err != nil {
				t.Fatal(err)
			}
			if isRefusal(answer) {
				refused++
			} else {
				l.assertCount(t, k, query, answer)
			}
		}
	}
	return refused + l.assertStateOrRefused(t, c, k)
}

// isRefusal accepts a Status that says that it can't be answered now.
func isRefusal(answer client.Answer) bool {
	var status client.Status
	return (answer.Status == http.StatusServiceUnavailable || answer.Status == http.StatusGatewayTimeout) &&
		json.Unmarshal(answer.Body, &status) == nil && status.Kind == "Status" && status.Code == answer.Status
}

// assertCount compares how many objects any form of a list holds with the truth at its revision.
func (l *load) assertCount(t *testing.T, k kind, query string, answer client.Answer) {
	t.Helper()
	var list struct {
		client.List
		Rows []json.RawMessage `json:"rows"`
	}
	if err := json.Unmarshal(answer.Body, &list); err != nil || answer.Status != http.StatusOK {
		t.Errorf("%s%s: %d %s (%v)", k.plural, query, answer.Status, client.Excerpt(answer.Body), err)
		return
	}
	match := record.All
	if query == "?labelSelector=tier" {
		match = func(o client.Object) bool { return o.Metadata.Labels["tier"] != "" }
	}
	truth := l.truth[k.plural]
	if err := truth.Await(list.RV(), patience); err != nil {
		t.Error(err)
		return
	}
	want, err := truth.Snapshot(match, list.RV())
	if err != nil {
		t.Error(err)
		return
	}
	if got := len(list.Items) + len(list.Rows); got != len(want) {
		t.Errorf("%s%s: a %s at %d has %d objects, want %d", k.plural, query, list.Kind, list.RV(), got, len(want))
	}
}

// assertStateOrRefused opens a stream of the state: it is refused, ended, or whole when it says so.
func (l *load) assertStateOrRefused(t *testing.T, c *client.Client, k kind) int {
	t.Helper()
	path := k.in("") + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=0&timeoutSeconds=5"
	stream, err := c.Watch(t.Context(), path)
	if err != nil {
		return 1
	}
	defer stream.Close()
	var events []client.Event
	for {
		event, err := stream.Next(10 * time.Second)
		if err != nil || event.Type == "ERROR" {
			return 1
		}
		events = append(events, event)
		if event.Type == "BOOKMARK" && event.Meta().EndsInitialEvents() {
			break
		}
	}
	truth := l.truth[k.plural]
	if err := truth.Await(events[len(events)-1].Meta().RV(), patience); err != nil {
		t.Error(err)
	}
	for _, fault := range record.CheckWatch(truth.History, record.All, record.Watched{Initial: true, Events: events}) {
		t.Errorf("the state of %s: %s", k.plural, fault)
	}
	return 0
}

// TestDS01_TwoNodesThatSeeOnlyEachOther gives two replicas views in which each is told of the other alone. Neither may wait
// for the other to read from upstream.
func TestDS01_TwoNodesThatSeeOnlyEachOther(t *testing.T) {
	own, err := plane.StartFleet(t.Context(), "pair", cluster.Topology{
		Shards: 1, Replicas: 2, Proxies: 1,
		Sees: func(observer, node *cluster.Member) bool { return observer != node },
	}, mirrors)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	const length = 5 * time.Second
	l := startLoad(t, []client.Endpoint{own.Proxies[0].Endpoint()}, 8, gentle)
	wait.Pause(t.Context(), length)
	l.finish(t)
	l.assertNoRelist(t)
	for _, one := range l.listers {
		if one.tally.Lists == 0 || len(one.tally.Refused) > 0 {
			t.Errorf("lists of %s of %s: %+v", one.name, one.kind.plural, one.tally)
		}
	}
}
