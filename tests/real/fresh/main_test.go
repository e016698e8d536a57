// Package fresh judges answers that must hold everything that upstream acknowledged before they were asked for, and what
// they cost upstream. Weir reads from an apiserver that lags behind the one that is written to: its way to etcd is slow, or
// it stands still now and then. Weir is one process and a fleet, side by side, and is told no kind beforehand. With
// WEIR_PLAIN=1 an apiserver stands in its place.
package fresh

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
)

// form is one way to run weir.
type form struct {
	name     string
	topology cluster.Topology
	weir     *cluster.Weir
}

var (
	// plane is the control plane of this run.
	plane *cluster.Cluster
	// forms are those that run in front of it all the time.
	forms []*form

	serial atomic.Int64
)

// topologies are the forms of weir; the zero one is a single process.
var topologies = map[string]cluster.Topology{
	"one process": {},
	"processes":   {Shards: 2, Replicas: 1, Proxies: 2},
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	began := time.Now()
	var err error
	if plane, err = cluster.Start(ctx, cluster.Options{Lagging: true, Plain: modes.IsPlain()}); err != nil {
		fmt.Fprintln(os.Stderr, "start of the control plane:", err)
		return 1
	}
	defer plane.Close()
	forms = []*form{{"one process", topologies["one process"], plane.Weir}}
	if !modes.IsPlain() {
		fleet, err := plane.StartAs(ctx, "fleet", topologies["processes"], nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, "start of the fleet:", err)
			return 1
		}
		defer fleet.Kill()
		forms = append(forms, &form{"processes", topologies["processes"], fleet})
	}
	fmt.Fprintf(os.Stderr, "control plane ready in %.1f s, plain=%v, logs in %s\n", time.Since(began).Seconds(), modes.IsPlain(), plane.Dir)
	go func() { // an interrupt ends the processes first; the tests then fail by themselves
		<-ctx.Done()
		plane.Close()
	}()
	return m.Run()
}

// judgesWeirItself leaves a test out that asks what only weir can be asked.
func judgesWeirItself(t testing.TB) {
	t.Helper()
	if modes.IsPlain() {
		t.Skip("an apiserver stands in weir's place")
	}
}

// endpoints are all places where weir is reached, of all forms.
func endpoints() []client.Endpoint {
	var all []client.Endpoint
	for _, f := range forms {
		all = append(all, f.weir.Endpoints...)
	}
	return all
}
