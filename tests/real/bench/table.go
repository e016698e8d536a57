package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// table is printed as Markdown.
type table struct {
	title  string
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print() {
	fmt.Printf("\n### %s\n\n", t.title)
	fmt.Printf("| %s |\n|%s\n", strings.Join(t.header, " | "), strings.Repeat("---|", len(t.header)))
	for _, row := range t.rows {
		fmt.Printf("| %s |\n", strings.Join(row, " | "))
	}
}

// quantile is the smallest of the values that at least this share of them does not exceed; 0 when there are none.
func quantile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(share*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

const (
	median = 0.5
	tail   = 0.99
)

// pair is the median and the tail of values, as a cell of a table.
func pair(values []time.Duration) string {
	if len(values) == 0 {
		return "-"
	}
	return bare(quantile(values, median)) + " / " + millis(quantile(values, tail))
}

func millis(d time.Duration) string { return bare(d) + " ms" }

// bare is a number of milliseconds with as many digits as mean something.
func bare(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms < 10 && ms > -10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.0f", ms)
	}
}

// thousands is a count with a comma where a person wants one; counts here are below a million.
func thousands(n int) string {
	if n < 1_000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1_000, n%1_000)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// shares says how many of each there were, the most frequent first.
func shares(counts map[string]int) string {
	total := 0
	for _, n := range counts {
		total += n
	}
	names := slices.SortedFunc(func(yield func(string) bool) {
		for name := range counts {
			if !yield(name) {
				return
			}
		}
	}, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %.1f %%", name, 100*float64(counts[name])/float64(total)))
	}
	return strings.Join(parts, ", ")
}

// verdict says whether a bound holds.
func verdict(holds bool) string {
	if holds {
		return "holds"
	}
	return "missed"
}
