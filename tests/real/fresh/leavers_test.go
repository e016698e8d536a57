package fresh

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/client"
)

// TestDS04_NodesThatStoodStillAreAskedAgain stops all nodes of the fleet for a moment, in which many lists are asked for that
// need a proof. What the proxies ask the nodes is given up before the nodes have seen it; when the nodes go on, everything
// has to be as it was.
func TestDS04_NodesThatStoodStillAreAskedAgain(t *testing.T) {
	judgesWeirItself(t)
	const (
		lists      = 60 // at each proxy
		stoodStill = 1500 * time.Millisecond
	)
	topology := topologies["processes"]
	weir, err := plane.StartAs(t.Context(), fmt.Sprintf("still-%d", serial.Add(1)), topology, []string{configMaps.plural})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weir.Kill)
	assertAtHome(t, weir, configMaps)
	for _, node := range weir.Fleet.Nodes {
		if err := node.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), stoodStill)
	defer cancel()
	var group sync.WaitGroup
	for _, endpoint := range weir.Endpoints {
		c := caller(t, endpoint, "meanwhile")
		for range lists {
			group.Go(func() { _, _ = c.Send(ctx, client.Request{Path: configMaps.in("")}) }) // whatever it brings
		}
	}
	group.Wait()
	<-ctx.Done()
	for _, node := range weir.Fleet.Nodes {
		if err := node.Continue(); err != nil {
			t.Fatal(err)
		}
	}
	assertAtHome(t, weir, configMaps)
}

// TestThoseWhoLeaveCostOthersNothing sends many consistent lists whose clients do not wait for the answer. What weir
// asks for them, of its own processes and of upstream, is given up in the middle; afterwards everything goes on as before.
func TestThoseWhoLeaveCostOthersNothing(t *testing.T) {
	judgesWeirItself(t)
	const (
		connections = 20
		leavers     = 50 // of each connection
		patience    = 20 * time.Millisecond
	)
	mirrorEverywhere(t, configMaps, 0)
	seed := newSeed()
	t.Logf("seed %d", seed)
	for _, f := range forms {
		var group sync.WaitGroup
		for i := range connections {
			c, random := caller(t, f.weir.Endpoint(i), "leaver"), rand.New(rand.NewPCG(seed, uint64(i)))
			c.Get(t, "/version") // it is connected
			for range leavers {
				stay := time.Duration(random.Int64N(int64(patience)))
				group.Go(func() {
					ctx, leave := context.WithTimeout(t.Context(), stay)
					defer leave()
					_, _ = c.Send(ctx, client.Request{Path: configMaps.in("")}) // whatever it brings
				})
			}
		}
		group.Wait()
		assertAtHome(t, f.weir, configMaps)
	}
}
