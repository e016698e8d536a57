// Package audit reads the apiservers' audit logs: the only witness of who asked upstream, and so of who answered. A
// request that is in no log was answered by weir. A line is written when an answer is complete, which may be a moment
// after the client has it: ask only after a later request of one's own (a fence) has been logged.
package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"weir.dev/tests/real/cluster"
)

// Entry is one line of an audit log.
type Entry struct {
	ID        string `json:"auditID"`
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
	Reached  time.Time `json:"stageTimestamp"` // when it came to the stage
	Instance string    `json:"-"`              // whose log it is from
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

// Log is the audit logs of all apiservers. Each line is read once and kept.
type Log struct {
	mu    sync.Mutex
	files []*file
}

type file struct {
	instance *cluster.Instance
	offset   int64
	entries  []Entry
}

// NewLog reads the logs of instances; their files may not exist yet.
func NewLog(instances ...*cluster.Instance) *Log {
	l := &Log{}
	for _, instance := range instances {
		l.files = append(l.files, &file{instance: instance})
	}
	return l
}

func (f Filter) takes(e Entry) bool {
	return strings.HasPrefix(e.UserAgent, f.AgentPrefix) &&
		(f.User == "" || f.User == e.User.Username) &&
		(f.Resource == "" || f.Resource == e.ObjectRef.Resource) &&
		(f.Verb == "" || f.Verb == e.Verb) &&
		(f.Instance == "" || f.Instance == e.Instance) &&
		!e.Received.Before(f.Since)
}

// Select gives the entries of all instances that a filter takes. A watch has two: at its start and at its end.
func (l *Log) Select(filter Filter) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var selected []Entry
	for _, f := range l.files {
		if err := f.read(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.instance.Audit, err)
		}
		for _, e := range f.entries {
			if filter.takes(e) {
				selected = append(selected, e)
			}
		}
	}
	return selected, nil
}

// Requests counts each request once, whatever number of stages it logged.
func (l *Log) Requests(filter Filter) ([]Entry, error) {
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

// read takes what was appended since the last time; a line without its end is left for the next.
func (f *file) read() error {
	source, err := os.Open(f.instance.Audit)
	if os.IsNotExist(err) {
		return nil // the instance never answered
	}
	if err != nil {
		return err
	}
	defer source.Close()
	if _, err := source.Seek(f.offset, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(source, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil
		}
		entry := Entry{Instance: f.instance.Name}
		if err := json.Unmarshal(line, &entry); err != nil {
			return fmt.Errorf("line %q: %w", line[:min(len(line), 80)], err)
		}
		f.entries = append(f.entries, entry)
		f.offset += int64(len(line))
	}
}

// String is the entry for a failed test's output.
func (e Entry) String() string {
	return fmt.Sprintf("%s: %s %s by %s (%s) %d", e.Instance, e.Verb, e.URI, e.User.Username, e.UserAgent, e.ResponseStatus.Code)
}
