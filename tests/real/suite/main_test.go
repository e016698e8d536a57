// Package suite judges weir with the real etcd, kube-apiserver, kubectl and client-go. One control plane serves all tests
// of a run; tests that disturb its apiservers come first and one by one, the others run side by side in namespaces of
// their own. With WEIR_PLAIN=1 an apiserver stands in weir's place, which shows that the expectations themselves hold. With
// WEIR_TOPOLOGY=processes weir is shard nodes and proxies instead of one process; each test then keeps to one proxy.
package suite

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
)

// plane is the control plane of this run.
var plane *cluster.Cluster

// mirrors are the kinds that weir mirrors from the start.
var mirrors = []string{
	"pods", "configmaps", "secrets", "nodes", "services", "namespaces", "deployments.apps",
	"gauges.metering.weir.test", "depots.metering.weir.test",
}

// topologies are the forms of weir that the suite can judge, by the value of WEIR_TOPOLOGY.
var topologies = map[string]cluster.Topology{
	"":          {},
	"processes": {Shards: 4, Replicas: 2, Proxies: 2},
}

// detector makes client-go's reflectors compare their store with an Exact list and panic on a difference. client-go reads
// it while it is loaded, so it has to be there before the process starts.
const detector = "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR"

func TestMain(m *testing.M) {
	if os.Getenv(detector) == "" {
		os.Setenv(detector, "true")
		err := syscall.Exec("/proc/self/exe", os.Args, os.Environ())
		fmt.Fprintln(os.Stderr, "restart with", detector, err)
		os.Exit(1)
	}
	// Most tests wait for clocks, not for processors.
	if flag.Parse(); flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		flag.Set("test.parallel", "12")
	}
	klog.SetLogger(klog.Logger{}) // client-go tells of every reconnect; the tests say what matters
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if _, known := topologies[os.Getenv("WEIR_TOPOLOGY")]; !known {
		fmt.Fprintf(os.Stderr, "WEIR_TOPOLOGY=%q is unknown\n", os.Getenv("WEIR_TOPOLOGY"))
		return 1
	}
	began := time.Now()
	var err error
	plane, err = cluster.Start(ctx, cluster.Options{
		Mirrors: mirrors, Topology: topology(), Gated: true, Plain: modes.IsPlain(), Fault: os.Getenv("WEIR_FAULT"),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start of the control plane:", err)
		return 1
	}
	defer plane.Close()
	fmt.Fprintf(os.Stderr, "control plane ready in %.1f s, plain=%v, %d processes, logs in %s\n",
		time.Since(began).Seconds(), modes.IsPlain(), max(1, topology().Processes()), plane.Dir)
	go func() { // an interrupt ends the processes first; the tests then fail by themselves
		<-ctx.Done()
		plane.Close()
	}()
	return m.Run()
}

func topology() cluster.Topology { return topologies[os.Getenv("WEIR_TOPOLOGY")] }
