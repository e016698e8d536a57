package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The bounds of fresh lists.
const (
	aboveUpstream = 5 * time.Millisecond
	aboveAny      = 5 * time.Millisecond
	busyTail      = 50 * time.Millisecond
	largeMedian   = time.Second
	largeTail     = 2 * time.Second
	passedAfter   = 500 * time.Millisecond
)

// isSmall says whether a collection can be compared as a whole.
func (f form) isSmall() bool { return f.objects <= someObjects }

// bound judges a cell: what is demanded of it, in words, and whether that holds.
func (c *cell) bound() (string, bool) {
	at := func(way int, share float64) time.Duration { return quantile(c.ways[way].ends, share) }
	p50, p99 := at(weirFresh, median), at(weirFresh, tail)
	switch {
	case c.busy:
		most := at(weirAny, median) + aboveAny
		return fmt.Sprintf("p50 %s (without a proof + 5), p99 50 ms", bare(most)), p50 <= most && p99 <= busyTail
	case c.isSmall():
		most := at(upstreamFresh, median) + aboveUpstream
		return fmt.Sprintf("p50 %s (upstream + 5)", millis(most)), p50 <= most
	default:
		passed := p99 <= passedAfter+at(upstreamFresh, tail)
		return "p50 1 s, p99 2 s, or passed at 500 ms", p50 <= largeMedian && p99 <= largeTail || passed
	}
}

func printLists(cells []*cell) {
	printLatencies(cells)
	printWhole(cells)
	printCost(cells)
}

func printLatencies(cells []*cell) {
	t := table{title: "Lists without resourceVersion, to the end of the answer: p50 / p99", header: []string{
		"objects", "kind", "answers", "weir", "upstream", "weir, no proof needed", "upstream, the same", "weir answered by", "bound", "",
	}}
	for _, c := range cells {
		if c.whole {
			continue
		}
		words, holds := c.bound()
		t.add(c.title(), c.pace(), thousands(c.ways[weirFresh].requests()),
			pair(c.ways[weirFresh].ends), pair(c.ways[upstreamFresh].ends), pair(c.ways[weirAny].ends), pair(c.ways[upstreamAny].ends),
			shares(c.ways[weirFresh].answered), words, verdict(holds))
	}
	t.print()
}

func printWhole(cells []*cell) {
	t := table{title: "All of the large collection, one list after the other: medians", header: []string{
		"objects", "kind", "lists", "bytes", "weir: first byte; end", "upstream", "weir, no proof needed", "upstream, the same", "weir answered by",
	}}
	for _, c := range cells {
		if !c.whole {
			continue
		}
		row := []string{c.title(), c.pace(), fmt.Sprint(c.ways[weirFresh].requests()), fmt.Sprintf("%.1f MB", float64(c.ways[weirFresh].bytes)/1e6)}
		for _, f := range c.ways {
			row = append(row, millis(quantile(f.firsts, median))+"; "+millis(quantile(f.ends, median)))
		}
		t.add(append(row, shares(c.ways[weirFresh].answered))...)
	}
	t.print()
}

func printCost(cells []*cell) {
	t := table{title: "Processor time a list, in ms: beyond what the writes cost anyway", header: []string{
		"objects", "kind", "apiservers, for a list at weir", "for one at upstream", "at weir, no proof needed", "at upstream, the same",
		"weir, for a list", "for one without proof", "apiservers anyway", "writes/s",
	}}
	apiservers := func(s spent) time.Duration { return s.apiservers }
	weir := func(s spent) time.Duration { return s.weir }
	for _, c := range cells {
		row := []string{c.title(), c.pace()}
		for _, f := range c.ways {
			row = append(row, c.cost(f, apiservers))
		}
		row = append(row, c.cost(c.ways[weirFresh], weir), c.cost(c.ways[weirAny], weir))
		t.add(append(row, c.anyway(apiservers), fmt.Sprintf("%.0f", c.writes))...)
	}
	t.print()
}

func (c *cell) cost(f *figures, by party) string {
	mean, off := f.cost(c.control, by)
	if len(f.turns) < 2 {
		return bare(mean) // one turn says nothing of the next
	}
	return fmt.Sprintf("%s ± %s", bare(mean), bare(off))
}

// anyway is what a party used while nobody asked.
func (c *cell) anyway(by party) string {
	var used, took time.Duration
	for _, t := range c.control.turns {
		used, took = used+by(t.used), took+t.took
	}
	return fmt.Sprintf("%.0f %% of a core", 100*float64(used)/float64(max(took, 1)))
}

// printProofs shows what weir itself has counted so far.
func (p *plane) printProofs(ctx context.Context) error {
	metrics, err := p.weir.Metrics(ctx)
	if err != nil {
		return err
	}
	t := table{title: "What weir counted of its proofs so far", header: []string{"labels", "requests", "mean wait"}}
	const counts, sums = "weir_proof_seconds_count", "weir_proof_seconds_sum"
	var labels []string
	for series := range metrics {
		if label, found := strings.CutPrefix(series, counts); found {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	for _, label := range labels {
		number := metrics[counts+label]
		mean := time.Duration(metrics[sums+label] / max(number, 1) * float64(time.Second))
		t.add("`"+label+"`", fmt.Sprintf("%.0f", number), millis(mean))
	}
	t.print()
	return nil
}
