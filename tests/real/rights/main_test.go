// Package rights judges that weir gives nobody a byte that kube-apiserver would not have given them, and everybody what it
// would. One apiserver with the authorizers of real clusters and a webhook, whose rules a test sets, is asked the same as
// weir in front of it: by callers of every sort about everything, and by callers at random with rights at random.
package rights

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
)

// plane is the control plane of this run.
var plane *cluster.Cluster

// mirrors are the kinds that weir mirrors; services are asked for too, and passed.
var mirrors = []string{
	"pods", "configmaps", "secrets", "nodes", "gauges.metering.weir.test", "depots.metering.weir.test",
}

// authorization puts the webhook before the others, so that it can refuse what they allow. It remembers nothing: rules count
// at once.
const authorization = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: suite
  webhook:
    authorizedTTL: 1m
    cacheAuthorizedRequests: false
    unauthorizedTTL: 1m
    cacheUnauthorizedRequests: false
    timeout: 10s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %q}
- {type: Node, name: node}
- {type: RBAC, name: rbac}
`

func TestMain(m *testing.M) {
	// Most questions wait for the end of a watch, not for processors.
	if flag.Parse(); flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		flag.Set("test.parallel", "12")
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	began := time.Now()
	dir, err := os.MkdirTemp("", "weir-rights-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := start(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, "start of the control plane:", err)
		return 1
	}
	defer plane.Close()
	fmt.Fprintf(os.Stderr, "control plane ready in %.1f s, plain=%v, logs in %s\n", time.Since(began).Seconds(), modes.IsPlain(), plane.Dir)
	go func() { // an interrupt ends the processes first; the tests then fail by themselves
		<-ctx.Done()
		plane.Close()
	}()
	return m.Run()
}

func start(ctx context.Context, dir string) error {
	kubeconfig := filepath.Join(dir, "webhook.kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(judge.kubeconfig()), 0o600); err != nil {
		return err
	}
	var err error
	plane, err = cluster.Start(ctx, cluster.Options{
		Mirrors: mirrors, Lone: true, Plain: modes.IsPlain(), Callers: tokens(),
		Authorization: fmt.Sprintf(authorization, kubeconfig),
	})
	return err
}

// direct is a client of upstream itself.
func direct(t testing.TB, token string) *client.Client {
	c := plane.Upstream(token, "rights-direct/"+t.Name())
	t.Cleanup(c.Close)
	return c
}

// through is a client of weir.
func through(t testing.TB, token string) *client.Client {
	c := client.New(plane.Weir.Endpoint(0), token, "rights-through/"+t.Name())
	t.Cleanup(c.Close)
	return c
}
