package audit

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

const (
	// sendLimit bounds the requests of one fence, all together.
	sendLimit = 20 * time.Second
	// logLimit bounds the time until an answered request is in the log of its instance.
	logLimit = 10 * time.Second
)

// Fence waits until a request of its own is in the log of every instance: then what was answered before is there too. The
// agent has to be new; an entry whose agent begins with it would be taken for the request.
func (l *Log) Fence(t testing.TB, agent string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sendLimit)
	defer cancel()
	for _, f := range l.files {
		c := client.New(f.instance.Direct(), cluster.AdminToken, agent)
		if _, err := c.Send(ctx, client.Request{Path: "/version"}); err != nil {
			t.Fatalf("fence at %s: %v", f.instance.Name, err)
		}
		c.Close()
		wait.Eventually(t, "the fence in the log of "+f.instance.Name, logLimit, func() error {
			found, err := l.Select(Filter{AgentPrefix: agent, Instance: f.instance.Name})
			if err == nil && len(found) == 0 {
				err = errors.New("not there")
			}
			return err
		})
	}
}
