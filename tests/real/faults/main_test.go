// Package faults breaks weir while it is used: processes are killed and frozen, links are cut, delayed and silenced,
// apiservers lag and restart. Watchers and listers go on meanwhile, and everything they were given is judged against the
// truth at upstream. Each fault has to be seen to have hit, or it proves nothing.
package faults

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir.dev/tests/real/cluster"
)

// The processes of the fleet that all tests share.
const (
	shards   = 4
	replicas = 2
	proxies  = 2
)

var (
	// plane is the control plane of this run; no weir stands beside the fleet.
	plane *cluster.Cluster
	// fleet is weir in front of it. A test leaves it whole and ready.
	fleet *cluster.Fleet

	serial atomic.Int64
)

// mirrors are one kind that is built in and one that is not; what is asked of upstream differs.
var mirrors = []string{"pods", "gauges.metering.weir.test"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	began := time.Now()
	var err error
	plane, err = cluster.Start(ctx, cluster.Options{
		Mirrors:  mirrors,
		Topology: cluster.Topology{Shards: shards, Replicas: replicas, Proxies: proxies, Relays: true},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start of the control plane:", err)
		return 1
	}
	defer plane.Close()
	fleet = plane.Weir.Fleet
	fmt.Fprintf(os.Stderr, "control plane and fleet ready in %.1f s, logs in %s\n", time.Since(began).Seconds(), plane.Dir)
	go func() { // an interrupt ends the processes first; the tests then fail by themselves
		<-ctx.Done()
		plane.Close()
	}()
	return m.Run()
}
