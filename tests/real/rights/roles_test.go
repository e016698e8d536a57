package rights

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/roles"
	"weir.dev/tests/real/wait"
)

// mirroredByRole are kinds that differ in what weir has to ask before it reads them.
var mirroredByRole = []string{"configmaps", "nodes", "deployments.apps", "gauges.metering.weir.test"}

// identity is the one right without which weir goes on: it does not notice then that the cluster is another one.
var identity = roles.Right{Verb: "get", Resource: "namespaces", Name: "kube-system"}

// TestRolesThatWeirPrintsAreEnoughAndNotTooMuch starts weir with exactly the rights that `weir rbac` prints, and again without
// one of them, for each in turn: weir asks for what it may not have, and does not become ready, or does not stay so. It runs alone, since it takes from all
// users what clusters let them read of discovery.
func TestRolesThatWeirPrintsAreEnoughAndNotTooMuch(t *testing.T) {
	if plane.Weir.Plain {
		t.Skip("an apiserver needs no roles")
	}
	printed, err := roles.Printed(plane.WeirCommand(t.Context(), "rbac", "--mirror", strings.Join(mirroredByRole, ",")))
	if err != nil {
		t.Fatal(err)
	}
	all := append(roles.Apart(printed["weir-shard"].Rules), roles.Apart(printed["weir-mirrored"].Rules)...)
	const least = 15
	if len(all) < least {
		t.Fatalf("weir prints %v", all)
	}
	grants := []grant{{To: user(shardUser(len(all))), Rules: rulesWithout(all, len(all))}}
	for number := range all {
		grants = append(grants, grant{To: user(shardUser(number)), Rules: rulesWithout(all, number)})
	}
	withoutDiscovery(t)
	give(t, grants...)
	t.Run("weir", func(t *testing.T) {
		t.Run("with all of them", func(t *testing.T) {
			t.Parallel()
			worksWithAll(t, len(all))
		})
		for number, right := range all {
			t.Run("without "+right.String(), func(t *testing.T) {
				t.Parallel()
				failsWithout(t, number, right)
			})
		}
	})
}

func shardAccount(number int) string { return fmt.Sprint("shard-", number) }

func shardUser(number int) string { return "system:serviceaccount:lock:" + shardAccount(number) }

// rulesWithout are all rights but that with a number.
func rulesWithout(all []roles.Right, left int) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for number, right := range all {
		if number != left {
			rules = append(rules, right.Rule())
		}
	}
	return rules
}

// startShard starts weir with the identity that has a number.
func startShard(ctx context.Context, t *testing.T, number int) (*cluster.Weir, error) {
	t.Helper()
	accountUID(t, shardAccount(number))
	kubeconfig, err := plane.WriteKubeconfig(shardAccount(number), plane.A.Direct(), requestToken(t, shardAccount(number), nil))
	if err != nil {
		t.Fatal(err)
	}
	return plane.StartOwn(ctx, shardAccount(number), kubeconfig, mirroredByRole)
}

func worksWithAll(t *testing.T, number int) {
	weir, err := startShard(t.Context(), t, number)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weir.Kill)
	admin := client.New(weir.Endpoint(0), cluster.AdminToken, "rights-shard")
	t.Cleanup(admin.Close)
	for _, path := range []string{
		"/api/v1/configmaps?resourceVersion=0", "/api/v1/nodes?resourceVersion=0", "/apis/apps/v1/deployments?resourceVersion=0",
		"/apis/metering.weir.test/v1/namespaces/lock/gauges?resourceVersion=0&fieldSelector=spec.color%3Dred",
	} {
		for _, form := range []string{"", "&watch=1&timeoutSeconds=1"} {
			if answer := admin.Get(t, path+form); !client.FromMirror(answer.Header) {
				t.Errorf("%s%s: %s is %q", path, form, client.AnsweredBy, answer.Header.Get(client.AnsweredBy))
			}
		}
	}
	for _, e := range asked(t, number) {
		if e.ResponseStatus.Code == http.StatusForbidden && !e.IsOfItsOwnAccord() {
			t.Errorf("weir asks for what it has no right to: %s", e)
		}
	}
}

func failsWithout(t *testing.T, number int, right roles.Right) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var weir *cluster.Weir
	var starting sync.WaitGroup
	var failed error
	starting.Go(func() { weir, failed = startShard(ctx, t, number) })
	// A mirror that was listed is ready for a moment; without its watch it begins again and again.
	wanted := map[bool]int{true: 2, false: 1}[right.Verb == "watch"]
	const soon = 40 * time.Second
	wait.Eventually(t, "weir is refused "+right.String(), soon, func() error {
		refused := 0
		for _, e := range asked(t, number) {
			if e.ResponseStatus.Code == http.StatusForbidden && isAbout(e, right) {
				refused++
			}
		}
		if refused < wanted {
			return fmt.Errorf("%d times, not %d", refused, wanted)
		}
		return nil
	})
	if right != identity {
		cancel()
	}
	starting.Wait()
	if weir != nil {
		weir.Kill()
	}
	if (failed == nil) != (right == identity) && right.Verb != "watch" {
		t.Errorf("weir's start without it: %v", failed)
	}
}

// isAbout tells whether a request needs a right.
func isAbout(e audit.Entry, right roles.Right) bool {
	if right.Path != "" {
		matches, _ := path.Match(right.Path, e.URI)
		return matches
	}
	ref := e.ObjectRef
	return e.Verb == right.Verb && ref.APIGroup == right.Group && ref.Resource == right.Resource && (right.Name == "" || right.Name == ref.Name)
}

var shardLog = sync.OnceValue(func() *audit.Log { return audit.NewLog(plane.A) })

// asked are the answered requests of an identity.
func asked(t *testing.T, number int) []audit.Entry {
	found, err := shardLog().Select(audit.Filter{User: shardUser(number)})
	if err != nil {
		t.Error(err)
	}
	return found
}

// withoutDiscovery takes the right to read discovery from those who have it by being somebody, for the time of a test.
func withoutDiscovery(t *testing.T) {
	t.Helper()
	const bindings, name = rbacRoot + "/clusterrolebindings", "system:discovery"
	admin, nobody := direct(t, cluster.AdminToken), direct(t, cluster.BobToken)
	var kept rbacv1.ClusterRoleBinding
	if err := json.Unmarshal(admin.Get(t, bindings+"/"+name).Body, &kept); err != nil {
		t.Fatal(err)
	}
	kept.ObjectMeta = metav1.ObjectMeta{Name: name}
	until := func(status int) {
		wait.Eventually(t, fmt.Sprint("discovery is answered with ", status), 20*time.Second, func() error {
			answer, err := nobody.Send(context.Background(), client.Request{Path: "/apis"})
			if err == nil && answer.Status != status {
				err = fmt.Errorf("%d", answer.Status)
			}
			return err
		})
	}
	if _, err := admin.Write(t.Context(), http.MethodDelete, bindings+"/"+name, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		again := plane.Upstream(cluster.AdminToken, "rights-discovery")
		defer again.Close()
		if err := create(context.Background(), again, bindings, kept); err != nil {
			t.Fatal(err)
		}
		until(http.StatusOK)
	})
	until(http.StatusForbidden)
}
