package cluster

import (
	"testing"
	"time"
)

func TestProcessorTimeIsReadBehindTheName(t *testing.T) {
	const stat = "4242 (a ) b) S 1 4242 4242 0 -1 4194560 900 0 3 0 250 31 7 9 20 0 12 0 1000 1 2 3\n"
	used, err := parseProcessorTime([]byte(stat))
	if want := 2810 * time.Millisecond; err != nil || used != want {
		t.Errorf("%s, %v, want %s", used, err, want)
	}
	if _, err := parseProcessorTime([]byte("4242 (short) S 1\n")); err == nil {
		t.Error("a line without times was read")
	}
}
