// Package audit reads the apiservers' audit logs: the only witness of who asked upstream, and so of who answered. A
// request that is in no log was answered by weir. A line is written when an answer is complete, which may be a moment
// after the client has it: ask only after a later request of one's own (a fence) has been logged.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Entry is one line of an audit log.
type Entry struct {
	Stage     string `json:"stage"`
	URI       string `json:"requestURI"`
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource  string `json:"resource"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		APIGroup  string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Instance string    `json:"-"` // whose log it is from
}

// Filter says which entries are meant; a zero field means any. Time is when a request came in.
type Filter struct {
	AgentPrefix string
	User        string
	Resource    string
	Verb        string
	Instance    string
	Since       time.Time
}

// Log is the audit logs of all apiservers, by instance name.
type Log struct{ Files map[string]string }

func (f Filter) takes(e Entry) bool {
	return strings.HasPrefix(e.UserAgent, f.AgentPrefix) &&
		(f.User == "" || f.User == e.User.Username) &&
		(f.Resource == "" || f.Resource == e.ObjectRef.Resource) &&
		(f.Verb == "" || f.Verb == e.Verb) &&
		(f.Instance == "" || f.Instance == e.Instance) &&
		!e.Received.Before(f.Since)
}

// Select reads the entries of all instances that a filter takes. A watch has two: at its start and at its end.
func (l Log) Select(filter Filter) ([]Entry, error) {
	var selected []Entry
	for instance, path := range l.Files {
		file, err := os.Open(path)
		if os.IsNotExist(err) {
			continue // the instance never answered
		}
		if err != nil {
			return nil, err
		}
		err = scan(file, []byte(filter.AgentPrefix), func(e Entry) {
			e.Instance = instance
			if filter.takes(e) {
				selected = append(selected, e)
			}
		})
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return selected, nil
}

// Requests counts each request once, whatever number of stages it logged.
func (l Log) Requests(filter Filter) ([]Entry, error) {
	entries, err := l.Select(filter)
	started := map[string]bool{}
	var requests []Entry
	for _, e := range entries {
		id := fmt.Sprint(e.Instance, e.Received, e.UserAgent, e.URI)
		if !started[id] {
			started[id] = true
			requests = append(requests, e)
		}
	}
	return requests, err
}

// scan reads the lines that contain a text; reading only those keeps it fast on a log of 100,000 lines.
func scan(file *os.File, containing []byte, take func(Entry)) error {
	lines := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // the rest is a line that is being written
		}
		if !bytes.Contains(line, containing) {
			continue
		}
		var entry Entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &entry); err != nil {
			return fmt.Errorf("line %q: %w", line[:min(len(line), 80)], err)
		}
		take(entry)
	}
}

// String is the entry for a failed test's output.
func (e Entry) String() string {
	return fmt.Sprintf("%s: %s %s by %s (%s) %d", e.Instance, e.Verb, e.URI, e.User.Username, e.UserAgent, e.ResponseStatus.Code)
}
