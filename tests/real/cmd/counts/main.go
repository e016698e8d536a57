// Command counts reads the events of `go test -json`, prints a line for what passed and everything of what failed, and ends
// with a line of counts. It fails when something failed and also when nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

func main() {
	// A failed package counts as one failure, which is also what stands for a test that never came to its end.
	passed, failed, skipped := 0, 0, 0
	output := map[string]*strings.Builder{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text()) // a build error is not JSON
			continue
		}
		name := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if output[name] == nil {
				output[name] = &strings.Builder{}
			}
			output[name].WriteString(e.Output)
		case "pass":
			if e.Test != "" {
				passed++
				fmt.Printf("--- PASS: %s (%.2fs)\n", e.Test, e.Elapsed)
			}
		case "skip":
			if e.Test != "" {
				skipped++
			}
		case "fail", "build-fail":
			failed++
			if text := output[name]; text != nil {
				fmt.Print(text)
			}
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(output, name)
		}
	}
	fmt.Printf("real: %d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}
