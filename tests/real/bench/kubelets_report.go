package main

import (
	"fmt"
	"time"
)

// The bounds of the kubelet scenario.
const (
	markTail      = 300 * time.Millisecond
	mostEachSpace = 10 // requests a second and namespace
)

// printKubelets prints what the runs came to, and returns what breaks a bound in counts. Runs come in pairs, at weir and
// straight at upstream.
func printKubelets(runs []*kubelets, writes float64) []error {
	printMarks(runs, writes)
	printParties(runs)
	printAsked(runs)
	var broken []error
	for _, k := range runs {
		if len(k.failed) > 0 || k.early > 0 {
			broken = append(broken, fmt.Errorf("%w: %s: failed %v, ended early %d", errBroken, k.agent, k.failed, k.early))
		}
	}
	for n := 0; n < len(runs); n += 2 {
		if !runs[n].asksLittle(runs[n+1]) {
			broken = append(broken, fmt.Errorf("%w: requests at upstream: %s", errBroken, runs[n].agent))
		}
	}
	return broken
}

func (k *kubelets) place() string {
	if k.atWeir {
		return "weir"
	}
	return "upstream"
}

func (k *kubelets) pace() string { return thousands(k.rate) + "/s" }

func printMarks(runs []*kubelets, writes float64) {
	title := fmt.Sprintf("WatchLists by name, from the moment they were due to the end of the initial events (leases written at %.0f/s)", writes)
	t := table{title: title, header: []string{"asked", "begun", "at", "p50 / p99", "most", "failed", "ended early", "answered by", "bound", ""}}
	for _, k := range runs {
		failed := 0
		for _, n := range k.failed {
			failed += n
		}
		bound, judged := "", ""
		if k.atWeir {
			bound, judged = "p99 "+millis(markTail), verdict(quantile(k.marks, tail) <= markTail && failed == 0)
		}
		t.add(k.place(), thousands(k.watches), k.pace(), pair(k.marks), millis(quantile(k.marks, 1)),
			fmt.Sprint(failed), fmt.Sprint(k.early), shares(k.answered), bound, judged)
	}
	t.print()
}

func printParties(runs []*kubelets) {
	t := table{title: "Processor time from the first request to the last mark", header: []string{
		"asked", "at", "took", "load", "weir", "apiservers", "etcd", "of all processors",
	}}
	for _, k := range runs {
		took := k.ended.Sub(k.began)
		all := k.used.load + k.used.weir + k.used.apiservers + k.used.etcd
		t.add(k.place(), k.pace(), seconds(took), seconds(k.used.load), seconds(k.used.weir),
			seconds(k.used.apiservers), seconds(k.used.etcd), fmt.Sprintf("%.0f %%", 100*share(all, took)))
	}
	t.print()
}

func printAsked(runs []*kubelets) {
	t := table{title: "Requests at upstream meanwhile, about secrets and config maps", header: []string{
		"asked", "at", "revision", "one namespace", "all namespaces", "second watches", "clients' own", "in all",
		"busiest namespace", "in its busiest second", "bound", "", "access reviews besides",
	}}
	for n, k := range runs {
		total, second := k.asked.busiest()
		rate := float64(total) / k.ended.Sub(k.began).Seconds()
		bound, judged := "", ""
		if k.atWeir {
			straight := runs[n+1]
			bound = fmt.Sprintf("%d/s a namespace, %s in all", mostEachSpace, thousands(straight.asked.total()))
			judged = verdict(k.asksLittle(straight))
		}
		a := k.asked
		t.add(k.place(), k.pace(), thousands(a.points), thousands(a.scopes), thousands(a.wholes), thousands(a.catchUp),
			thousands(a.clients), thousands(a.total()), fmt.Sprintf("%.1f/s", rate), fmt.Sprint(second), bound, judged, thousands(a.reviews))
	}
	t.print()
}

// asksLittle judges the counts of a run at weir by those of the same run straight at upstream.
func (k *kubelets) asksLittle(straight *kubelets) bool {
	total, _ := k.asked.busiest()
	rate := float64(total) / k.ended.Sub(k.began).Seconds()
	return rate <= mostEachSpace && k.asked.total() <= straight.asked.total()
}
