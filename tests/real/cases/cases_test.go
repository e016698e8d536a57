// Package cases keeps cases.txt true: what it calls covered has a test, what has a test is not called open, and the
// number of open cases falls only.
package cases

import (
	"bufio"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	listFile = "../cases.txt"
	checkout = "../../.."
	// known is how many cases there are; the list must not get shorter by losing some.
	known = 118
)

type entry struct {
	id, state, title string
}

type list struct {
	entries []entry
	open    int // as the file says
}

func readList(t *testing.T) list {
	t.Helper()
	file, err := os.Open(listFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var l list
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		switch fields := strings.SplitN(line, " ", 3); {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "open: "):
			if _, err := fmt.Sscanf(line, "open: %d", &l.open); err != nil {
				t.Fatal(err)
			}
		case len(fields) == 3:
			l.entries = append(l.entries, entry{fields[0], fields[1], fields[2]})
		default:
			t.Fatalf("unreadable line %q", line)
		}
	}
	return l
}

var (
	goTest   = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	rustTest = regexp.MustCompile(`(?m)^\s*(?:async )?fn (\w+)\(`)
	joinedID = regexp.MustCompile(`^(?i:([a-z]{2})(\d{2}))$`)
)

// idsIn reads the ids in a test's name: parts like WR02, or pairs of parts like wr and 02.
func idsIn(name string) []string {
	var ids []string
	parts := strings.Split(strings.TrimPrefix(name, "Test"), "_")
	for i, part := range parts {
		if i+1 < len(parts) && len(part) == 2 {
			part += parts[i+1]
		}
		if id := joinedID.FindStringSubmatch(part); id != nil {
			ids = append(ids, strings.ToUpper(id[1])+"-"+id[2])
		}
	}
	return ids
}

// named finds the ids in the names of all tests of the checkout. Rust functions count when their file has tests.
func named(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(checkout, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // files come and go while others build
		}
		if d.IsDir() && (d.Name() == "target" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		pattern := map[string]*regexp.Regexp{".rs": rustTest, ".go": goTest}[filepath.Ext(path)]
		if pattern == nil || filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil || filepath.Ext(path) == ".rs" && !strings.Contains(string(source), "test]") && !strings.Contains(string(source), "test(") {
			return nil
		}
		for _, name := range pattern.FindAllStringSubmatch(string(source), -1) {
			for _, id := range idsIn(name[1]) {
				found[id] = name[1]
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// update calls covered what has a test, and lowers the number: go test ./cases -update
var update = flag.Bool("update", false, "bring cases.txt up to date where that makes it shorter")

// cover rewrites the file. It never calls a case open again: a test that went away has to be noticed.
func cover(t *testing.T, l list, tests map[string]string) {
	t.Helper()
	raw, err := os.ReadFile(listFile)
	if err != nil {
		t.Fatal(err)
	}
	text, open := string(raw), 0
	for _, e := range l.entries {
		if _, has := tests[e.id]; has {
			text = strings.Replace(text, e.id+" open ", e.id+" covered ", 1)
		} else if e.state == "open" {
			open++
		}
	}
	text = strings.Replace(text, fmt.Sprintf("open: %d\n", l.open), fmt.Sprintf("open: %d\n", open), 1)
	if err := os.WriteFile(listFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheListOfCasesIsTrue(t *testing.T) {
	l, tests := readList(t), named(t)
	if *update {
		cover(t, l, tests)
		l = readList(t)
	}
	open := 0
	ids := map[string]bool{}
	for _, e := range l.entries {
		test, has := tests[e.id]
		switch {
		case e.state == "open" && has:
			t.Errorf("%s is called open, and %s names it: call it covered and lower the number", e.id, test)
		case e.state == "open":
			open++
		case e.state != "covered":
			t.Errorf("%s has the state %q, want open or covered", e.id, e.state)
		case !has:
			t.Errorf("%s is called covered, and no test names it", e.id)
		}
		if ids[e.id] {
			t.Errorf("%s is there twice", e.id)
		}
		ids[e.id] = true
	}
	if open != l.open {
		t.Errorf("%d cases are open, the file says %d", open, l.open)
	}
	if len(ids) != known {
		t.Errorf("%d cases, want %d", len(ids), known)
	}
	for id, test := range tests {
		if !ids[id] && knownKind(l, id) {
			t.Errorf("%s names %s, which is no case", test, id)
		}
	}
}

// knownKind tells an id from a word that looks like one.
func knownKind(l list, id string) bool {
	for _, e := range l.entries {
		if e.id[:2] == id[:2] {
			return true
		}
	}
	return false
}

func TestAnIDIsFoundInNames(t *testing.T) {
	for name, want := range map[string]string{
		"TestWR02_Resume": "[WR-02]", "wr_02_resume": "[WR-02]", "resume_wr02": "[WR-02]", "TestPG07_PG10_Pages": "[PG-07 PG-10]",
		"TestUTF8": "[]", "fnv1a64": "[]", "answers02": "[]", "sha_256": "[]",
	} {
		if found := fmt.Sprint(idsIn(name)); found != want {
			t.Errorf("%s: %s, want %s", name, found, want)
		}
	}
}
