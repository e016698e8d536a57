package rights

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

const (
	rbacRoot    = "/apis/rbac.authorization.k8s.io/v1"
	rbacGroup   = "rbac.authorization.k8s.io"
	rbacVersion = rbacGroup + "/v1"
)

// grant gives a user or a group what some rules allow.
type grant struct {
	To    rbacv1.Subject
	Rules []rbacv1.PolicyRule
	// Space is where it counts, "" for everywhere.
	Space string
	// IsBorrowed takes the rules from a ClusterRole also where they count in one namespace.
	IsBorrowed bool
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacGroup, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacGroup, Name: name}
}

// rights is a rule: verbs on resources of groups, and of some names only if there are any.
func rights(verbs, groups, resources []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
}

var serial atomic.Int64

// write makes the role and its binding, and returns the name of both.
func (g grant) write(ctx context.Context, admin *client.Client) (string, error) {
	name := fmt.Sprintf("rights-%d", serial.Add(1))
	meta := metav1.ObjectMeta{Name: name}
	in := rbacRoot
	if g.Space != "" {
		in += "/namespaces/" + g.Space
	}
	reference := rbacv1.RoleRef{APIGroup: rbacGroup, Kind: "ClusterRole", Name: name}
	rolePath, role := rbacRoot+"/clusterroles", any(rbacv1.ClusterRole{
		TypeMeta: metav1.TypeMeta{Kind: "ClusterRole", APIVersion: rbacVersion}, ObjectMeta: meta, Rules: g.Rules,
	})
	if g.Space != "" && !g.IsBorrowed {
		reference.Kind = "Role"
		rolePath, role = in+"/roles", rbacv1.Role{
			TypeMeta: metav1.TypeMeta{Kind: "Role", APIVersion: rbacVersion}, ObjectMeta: meta, Rules: g.Rules,
		}
	}
	if err := create(ctx, admin, rolePath, role); err != nil {
		return name, err
	}
	subjects := []rbacv1.Subject{g.To}
	if g.Space == "" {
		return name, create(ctx, admin, in+"/clusterrolebindings", rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{Kind: "ClusterRoleBinding", APIVersion: rbacVersion},
			ObjectMeta: meta, Subjects: subjects, RoleRef: reference,
		})
	}
	return name, create(ctx, admin, in+"/rolebindings", rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{Kind: "RoleBinding", APIVersion: rbacVersion},
		ObjectMeta: meta, Subjects: subjects, RoleRef: reference,
	})
}

func create(ctx context.Context, admin *client.Client, path string, object any) error {
	body, err := json.Marshal(object)
	if err == nil {
		_, err = admin.Write(ctx, http.MethodPost, path, body)
	}
	return err
}

// give makes grants and waits until the authorizer knows them.
func give(t testing.TB, grants ...grant) {
	t.Helper()
	admin := direct(t, cluster.AdminToken)
	for _, g := range grants {
		if _, err := g.write(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
	}
	settle(t)
}

// settle waits until the authorizer knows all grants that were made before. It hears of roles and of bindings in their order,
// each kind by itself, so the last of each kind tells of all. Asked through weir, a get without resourceVersion is upstream's.
func settle(t testing.TB) {
	t.Helper()
	admin := direct(t, cluster.AdminToken)
	for _, form := range []grant{{}, {Space: "lock"}, {Space: "lock", IsBorrowed: true}} {
		name := fmt.Sprintf("mark-%d", serial.Add(1))
		form.To = user(markerName)
		form.Rules = []rbacv1.PolicyRule{rights([]string{"get"}, []string{""}, []string{"configmaps"}, name)}
		if _, err := form.write(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
		for _, marked := range []*client.Client{direct(t, markerToken), through(t, markerToken)} {
			wait.Eventually(t, "the authorizer knows "+name, 20*time.Second, func() error {
				answer, err := marked.Send(t.Context(), client.Request{Path: "/api/v1/namespaces/lock/configmaps/" + name})
				if err == nil && answer.Status != http.StatusNotFound {
					err = fmt.Errorf("%d", answer.Status)
				}
				return err
			})
		}
	}
}
