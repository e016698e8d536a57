package suite

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
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
var auditLog = sync.OnceValue(func() *audit.Log { return audit.NewLog(plane.Instances...) })

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
	auditLog().Fence(t, agent(t, "fence"))
	found, err := auditLog().Requests(filter)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
