package suite

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

var serial atomic.Int64

// agent is a user agent that only one client of the run has.
func agent(t testing.TB, role string) string {
	return fmt.Sprintf("suite-%s-%d/%s", role, serial.Add(1), strings.ReplaceAll(t.Name(), " ", "_"))
}

// turns are the tests that have an endpoint of weir, by name, and which.
var turns struct {
	sync.Mutex
	of map[string]int
}

// endpoint is weir's as this test sees it: tests take the proxies in turn, and a test keeps its own, for all its clients
// and in its subtests. What one proxy has shown, another may have to wait for.
func endpoint(t testing.TB) client.Endpoint {
	name, _, _ := strings.Cut(t.Name(), "/")
	turns.Lock()
	defer turns.Unlock()
	if turns.of == nil {
		turns.of = map[string]int{}
	}
	turn, known := turns.of[name]
	if !known {
		turn = len(turns.of)
		turns.of[name] = turn
	}
	return plane.Weir.Endpoint(turn)
}

// mirrored is a client of weir none of whose requests may reach upstream. That is judged when the test ends.
func mirrored(t testing.TB, token string) *client.Client {
	t.Helper()
	return mirroredAt(t, endpoint(t), token)
}

func mirroredAt(t testing.TB, endpoint client.Endpoint, token string) *client.Client {
	t.Helper()
	c := client.New(endpoint, token, agent(t, "mirrored"))
	t.Cleanup(func() {
		c.Close()
		assertUnseen(t, c.Agent)
	})
	return c
}

// through is a client of weir whose requests may be passed on.
func through(t testing.TB, token string) *client.Client {
	c := client.New(endpoint(t), token, agent(t, "through"))
	t.Cleanup(c.Close)
	return c
}

// direct is a client of upstream itself.
func direct(t testing.TB, token string) *client.Client {
	c := plane.Upstream(token, agent(t, "direct"))
	t.Cleanup(c.Close)
	return c
}

// assertMirror demands that weir says that it answered by itself.
func assertMirror(t testing.TB, path string, header http.Header) {
	t.Helper()
	if plane.Weir.Plain {
		return
	}
	if !client.FromMirror(header) {
		t.Errorf("%s: %s is %q, want mirror", path, client.AnsweredBy, header.Get(client.AnsweredBy))
	}
}

// assertPassed demands that weir says that upstream answered.
func assertPassed(t testing.TB, path string, header http.Header) {
	t.Helper()
	if plane.Weir.Plain {
		return
	}
	if by := header.Get(client.AnsweredBy); !strings.HasPrefix(by, "passed; ") {
		t.Errorf("%s: %s is %q, want passed; and a reason", path, client.AnsweredBy, by)
	}
}

// getMirrored is Get for an answer that must come from the mirror.
func getMirrored(t testing.TB, c *client.Client, path string) client.Answer {
	t.Helper()
	answer := c.Get(t, path)
	assertMirror(t, path, answer.Header)
	return answer
}

// watchMirrored is MustWatch for a stream that must come from the mirror.
func watchMirrored(t testing.TB, c *client.Client, path string) *client.Stream {
	t.Helper()
	stream := c.MustWatch(t, path)
	assertMirror(t, path, stream.Header)
	return stream
}

// auditLog is the log of all apiservers of the run.
var auditLog = sync.OnceValue(func() *audit.Log {
	files := map[string]string{}
	for _, instance := range plane.Instances {
		files[instance.Name] = instance.Audit
	}
	return audit.NewLog(files)
})

// assertUnseen demands that upstream never saw a user agent.
func assertUnseen(t testing.TB, agent string) {
	t.Helper()
	if plane.Weir.Plain {
		return
	}
	seen := requests(t, audit.Filter{AgentPrefix: agent})
	if len(seen) > 0 {
		t.Errorf("upstream saw %d requests that the mirror had to answer, first %s", len(seen), seen[0])
	}
}

// requests reads the audit logs after everything that was answered so far is in them.
func requests(t testing.TB, filter audit.Filter) []audit.Entry {
	t.Helper()
	fence(t)
	found, err := auditLog().Requests(filter)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// fence waits until a request of its own is in the log of every instance.
func fence(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	mark := agent(t, "fence")
	for _, instance := range plane.Instances {
		c := client.New(instance.Direct(), cluster.AdminToken, mark)
		if _, err := c.Send(ctx, client.Request{Path: "/version"}); err != nil {
			t.Fatalf("fence at %s: %v", instance.Name, err)
		}
		c.Close()
		eventually(t, "the fence in the log of "+instance.Name, 10*time.Second, func() error {
			found, err := auditLog().Select(audit.Filter{AgentPrefix: mark, Instance: instance.Name})
			if err == nil && len(found) == 0 {
				err = fmt.Errorf("not there")
			}
			return err
		})
	}
}

// eventually repeats an attempt until it succeeds or the limit has passed.
func eventually(t testing.TB, what string, limit time.Duration, attempt func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := attempt()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		<-tick.C
	}
}
