package suite

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// TestPF01_StrangersCostOthersNothing has callers without a valid credential ask while others write and read. Upstream
// answers a stranger and then closes the whole connection (it sends GOAWAY), on which others may have requests under way:
// those it never looked at have to be sent again, and none may be carried out twice. It runs alone, as do all tests with
// strangers: what it finds would fail the others too.
func TestPF01_StrangersCostOthersNothing(t *testing.T) {
	const writes, limit = 150, 20 * time.Second
	space := namespace(t)
	upstream := direct(t, cluster.AdminToken)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var strangers sync.WaitGroup
	for _, token := range []string{"", "wrong"} {
		c := through(t, token)
		strangers.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.Send(ctx, client.Request{Path: "/api/v1/namespaces/lock/pods/pump"}) // its answer is another test's
			}
		})
	}
	var callers sync.WaitGroup
	for range 3 {
		c := through(t, cluster.AdminToken)
		callers.Go(func() {
			for range writes {
				once(t, c, limit, client.Request{
					Method: http.MethodPost, Path: configMaps.in(space), Header: http.Header{"Content-Type": {"application/json"}},
					Body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"w-"}}`),
				}, http.StatusCreated)
				once(t, c, limit, client.Request{Path: "/api/v1/namespaces/lock/pods/pump"}, http.StatusOK)
			}
		})
	}
	callers.Wait()
	cancel()
	strangers.Wait()
	if made := len(parseList(t, upstream.Get(t, configMaps.in(space)).Body).Items); made != 3*writes {
		t.Errorf("%d objects were made by %d creations", made, 3*writes)
	}
}

// once sends a request that has to be answered within a limit.
func once(t *testing.T, c *client.Client, limit time.Duration, r client.Request, want int) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	answer, err := c.Send(ctx, r)
	if err == nil && answer.Status != want {
		err = fmt.Errorf("%d %s", answer.Status, client.Excerpt(answer.Body))
	}
	if err != nil {
		t.Errorf("%s %s: %v", r.Method, r.Path, err)
	}
}
