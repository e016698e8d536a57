package rights

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// TestPF01_CredentialsThatNobodyKnowsCostOthersNothing has strangers show another wrong token with each request, so that weir takes
// them for callers until upstream has ended a connection for each of them. Callers write and read meanwhile. It runs alone.
func TestPF01_CredentialsThatNobodyKnowsCostOthersNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const path = "/api/v1/namespaces/lock/pods/pump"
	var strangers, callers sync.WaitGroup
	var asked atomic.Int64
	strange, wrong := faults{t: t}, faults{t: t}
	for number := range 8 {
		c := through(t, "")
		strangers.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				header := http.Header{"Authorization": {fmt.Sprintf("Bearer wrong-%d-%d", number, turn)}}
				answer, err := c.Send(ctx, client.Request{Path: path, Header: header})
				asked.Add(1)
				if err == nil && answer.Status != http.StatusUnauthorized {
					strange.note(fmt.Errorf("%d %s", answer.Status, client.Excerpt(answer.Body)), "a stranger")
				}
			}
		})
	}
	write := client.Request{
		Method: http.MethodPost, Path: "/api/v1/namespaces/dry/configmaps?dryRun=All", Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"w-"}}`),
	}
	const rounds = 200
	for range 8 {
		c := through(t, cluster.AdminToken)
		callers.Go(func() {
			for range rounds {
				for _, r := range []client.Request{write, {Path: path}} {
					answer, err := c.Send(t.Context(), r)
					if err == nil && answer.Status >= http.StatusMultipleChoices {
						err = fmt.Errorf("%d %s", answer.Status, client.Excerpt(answer.Body))
					}
					wrong.note(err, r.Method+" of a caller")
				}
			}
		})
	}
	callers.Wait()
	cancel()
	strangers.Wait()
	strange.end()
	wrong.end()
	if asked.Load() < rounds {
		t.Errorf("strangers asked %d times only", asked.Load())
	}
}
