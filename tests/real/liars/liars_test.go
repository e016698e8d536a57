// Package liars shows that the suite can fail: it runs scenarios against an apiserver that tells one lie at a time.
package liars

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
)

// noticedBy are the scenarios that must notice a lie.
var noticedBy = map[string]string{
	"drop":           "TestWR13",
	"repeat":         "TestWR13",
	"early bookmark": "TestBW08",
	"short list":     "TestEN01",
	"stale list":     "TestListsFollow",
	"whole shards":   "TestSH01_ShardedPages",
	"bare deletion":  "TestSE02",
	"late end":       "TestBW01",
}

// TestEachLieIsNoticed starts a control plane for each lie, so it belongs to the long modes.
func TestEachLieIsNoticed(t *testing.T) {
	if !modes.IsLong() {
		t.Skip("takes minutes; WEIR_LONG=1 runs it")
	}
	for lie := range cluster.Faults {
		t.Run(lie, func(t *testing.T) {
			scenario, known := noticedBy[lie]
			if !known {
				t.Fatal("no scenario is known to notice it")
			}
			command := exec.CommandContext(t.Context(), "go", "test", "../suite", "-count=1", "-run", scenario)
			command.Env = append(os.Environ(), "WEIR_PLAIN=1", "WEIR_FAULT="+lie)
			out, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+scenario) {
				t.Errorf("%s did not notice:\n%s", scenario, out)
			}
		})
	}
}
