package main

import (
	"fmt"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
)

func TestListsAreJudgedByWhatTheyCostElsewhere(t *testing.T) {
	small, large := form{kind: secrets, objects: someObjects}, form{kind: configMaps, objects: 100_000, paged: true}
	for _, c := range []struct {
		what               string
		form               form
		busy               bool
		weir, upstream, no []time.Duration
		holds              bool
	}{
		{"busy, 5 ms above", small, true, milliseconds(7), milliseconds(1), milliseconds(2), true},
		{"busy, 6 ms above", small, true, milliseconds(8), milliseconds(1), milliseconds(2), false},
		{"busy, late once in two", small, true, milliseconds(3, 51), milliseconds(1), milliseconds(2), false},
		{"quiet, as upstream", small, false, milliseconds(90), milliseconds(85), milliseconds(2), true},
		{"quiet, worse than upstream", small, false, milliseconds(91), milliseconds(85), milliseconds(2), false},
		{"large, proved in time", large, false, milliseconds(900, 1_900), milliseconds(85), milliseconds(2), true},
		{"large, passed when it should be", large, false, milliseconds(580), milliseconds(85), milliseconds(2), true},
		{"large, too late", large, false, milliseconds(1_100, 2_100), milliseconds(85), milliseconds(2), false},
	} {
		measured := newCell(c.form, c.busy)
		measured.ways[weirFresh].ends = c.weir
		measured.ways[upstreamFresh].ends = c.upstream
		measured.ways[weirAny].ends = c.no
		if words, holds := measured.bound(); holds != c.holds {
			t.Errorf("%s: %v (%s)", c.what, holds, words)
		}
	}
}

func TestCostIsWhatTheControlOfTheSameRoundDidNotUse(t *testing.T) {
	used := func(ms int) spent { return spent{apiservers: time.Duration(ms) * time.Millisecond} }
	control, asked := newFigures(), newFigures()
	control.turns = []turn{{used(100), time.Second, 0}, {used(300), time.Second, 0}}
	asked.turns = []turn{{used(240), 2 * time.Second, 10}, {used(660), 2 * time.Second, 10}}
	mean, off := asked.cost(control, func(s spent) time.Duration { return s.apiservers })
	if mean != 5*time.Millisecond || off != time.Millisecond {
		t.Errorf("%s ± %s, want 5ms ± 1ms", mean, off)
	}
}

func TestRequestsAreTakenApart(t *testing.T) {
	const agent = "weir-bench/kubelets-weir-1000"
	entry := func(by, verb, resource, space string) audit.Entry {
		e := audit.Entry{UserAgent: by, Verb: verb, Received: time.Unix(100, 0)}
		e.ObjectRef.Resource, e.ObjectRef.Namespace = resource, space
		return e
	}
	a := asked{spaces: map[string]map[int64]int{}}
	for _, e := range []audit.Entry{
		entry("weir/1 (review)", "create", "selfsubjectaccessreviews", ""),
		entry("weir/1 (proof)", "list", "secrets", "nowhere"),
		entry("weir/1 (proof)", "list", "secrets", space(1)),
		entry("weir/1 (proof)", "list", "configmaps", space(1)),
		entry("weir/1 (proof)", "list", "secrets", ""),
		entry("weir/1 (feed)", "watch", "secrets", ""),
		entry(agent, "watch", "secrets", space(2)),
		entry("weir-bench/kubelets-weir-10", "watch", "secrets", space(2)),
		entry("weir/1 (proof)", "list", "pods", space(1)),
	} {
		a.take(e, agent)
	}
	if a.reviews != 1 || a.points != 1 || a.scopes != 2 || a.wholes != 1 || a.catchUp != 1 || a.clients != 1 {
		t.Errorf("%+v", a)
	}
	if a.total() != 6 {
		t.Errorf("%d in all, want 6 without the review", a.total())
	}
	if total, second := a.busiest(); total != 2 || second != 2 {
		t.Errorf("the busiest namespace: %d, %d, want 2 within one second", total, second)
	}
}

func TestARunMayAskNoMoreThanOneWithoutWeir(t *testing.T) {
	began := time.Unix(100, 0)
	run := func(requests, each int) *kubelets {
		k := &kubelets{began: began, ended: began.Add(10 * time.Second)}
		k.asked = asked{scopes: requests, spaces: map[string]map[int64]int{}}
		for n := range each {
			k.asked.count(space(0), began.Add(time.Duration(n)*time.Millisecond))
		}
		return k
	}
	for _, c := range []struct {
		requests, each int
		holds          bool
	}{{500, 100, true}, {501, 100, false}, {500, 101, false}} {
		t.Run(fmt.Sprint(c.requests, c.each), func(t *testing.T) {
			if run(c.requests, c.each).asksLittle(run(500, 0)) != c.holds {
				t.Errorf("not judged %v", c.holds)
			}
		})
	}
}

func TestKubeletsAskForEveryNamespaceAndKind(t *testing.T) {
	p := &plane{stock: stock{}}
	for n := range 200 {
		p.stock[secrets.plural] = append(p.stock[secrets.plural], fmt.Sprintf("%s/s-%d", secrets.collection(space(n%kubeletSpaces)), n))
		p.stock[configMaps.plural] = append(p.stock[configMaps.plural], fmt.Sprintf("%s/c-%d", configMaps.collection(space(n%wideSpaces)), n))
	}
	p.near = near(p.stock[configMaps.plural])
	spaces := map[string]bool{}
	for n := range 2 * kubeletSpaces {
		spaces[p.wanted(n)] = true
	}
	if len(spaces) != 2*kubeletSpaces {
		t.Errorf("%d different of %d", len(spaces), 2*kubeletSpaces)
	}
	if want := "/api/v1/namespaces/bench-001/configmaps" + watchList + "c-1"; p.wanted(3) != want {
		t.Errorf("%s, want %s", p.wanted(3), want)
	}
}

func TestALogThatLacksRequestsIsNoticed(t *testing.T) {
	straight := &kubelets{marks: milliseconds(1, 2, 3), asked: asked{clients: 3}}
	if err := straight.isComplete(); err != nil {
		t.Error(err)
	}
	straight.asked.clients = 2
	if straight.isComplete() == nil {
		t.Error("two requests of three were taken for all")
	}
}
