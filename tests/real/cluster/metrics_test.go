package cluster

import (
	"strings"
	"testing"
)

func TestMetricsAreReadAndSummed(t *testing.T) {
	const text = `# HELP weir_failovers Changes of a replica.
# TYPE weir_failovers counter
weir_failovers_total{shard="0",why="a } in a label"} 3
weir_failovers_total{shard="1"} 4 1700000000

weir_failovers_total_other 100
weir_holes 0
# EOF
`
	m, err := parseMetrics(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Sum("weir_failovers_total"); got != 7 {
		t.Errorf("the sum is %v, want 7", got)
	}
	if !m.Has("weir_holes") || m.Has("weir_hole") {
		t.Errorf("names are matched in part: %v", m)
	}
	if _, err := parseMetrics(strings.NewReader("weir_holes\n")); err == nil {
		t.Error("a metric without a value was read")
	}
}
