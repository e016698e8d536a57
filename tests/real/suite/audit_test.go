package suite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// ofTheMoment are the fields of an audit event that no two requests share.
var ofTheMoment = []string{"auditID", "requestReceivedTimestamp", "stageTimestamp"}

// TestAuditEventsOfAMirrorAreThoseOfUpstream sends the same requests to weir, which answers them from a mirror, and to an
// apiserver, and compares what both write in their audit logs.
func TestAuditEventsOfAMirrorAreThoseOfUpstream(t *testing.T) {
	t.Parallel()
	if plane.Weir.Audit == "" {
		t.Skip("weir has no audit log here")
	}
	for name, path := range map[string]string{
		"list":  "/api/v1/namespaces/kube-system/secrets?resourceVersion=0&labelSelector=a%3Db",
		"all":   "/api/v1/secrets?resourceVersion=0",
		"named": "/api/v1/namespaces/kube-system/secrets?resourceVersion=0&fieldSelector=metadata.name%3Dnone",
		"watch": "/api/v1/namespaces/kube-system/secrets?watch=1&resourceVersion=0&timeoutSeconds=1",
	} {
		mark := agent(t, name)
		for place, endpoint := range []client.Endpoint{endpoint(t), plane.A.Direct()} {
			c := client.New(endpoint, cluster.ReaderToken, mark)
			answer := c.Get(t, path)
			c.Close()
			if place == 0 && !client.FromMirror(answer.Header) {
				t.Fatalf("%s: not from the mirror: %v", path, answer.Header)
			}
		}
		var ours, theirs []map[string]any
		wait.Eventually(t, "the events of "+path, 20*time.Second, func() (err error) {
			if ours, err = eventsOf(plane.Weir.Audit, mark); err != nil {
				return err
			}
			if theirs, err = eventsOf(plane.A.Audit, mark); err != nil {
				return err
			}
			if len(theirs) == 0 || len(ours) < len(theirs) {
				return fmt.Errorf("%d of weir's and %d of upstream's", len(ours), len(theirs))
			}
			return nil
		})
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%s:\nweir's     %v\nupstream's %v", path, ours, theirs)
		}
	}
}

// eventsOf reads the events of a user agent, without what is of the moment.
func eventsOf(path, agent string) ([]map[string]any, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var events []map[string]any
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return events, nil // a line without its end is not written yet
		}
		var event map[string]any
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		if event["userAgent"] != agent {
			continue
		}
		for _, field := range ofTheMoment {
			if text, _ := event[field].(string); text == "" {
				return nil, fmt.Errorf("no %s in %s", field, line)
			}
			delete(event, field)
		}
		events = append(events, event)
	}
}
