package deploy

import (
	"os/exec"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"weir.dev/tests/real/roles"
)

// The roles of the manifests are what `weir rbac` prints: the one that serves whatever is mirrored, and the one for what is.
func TestRolesAreThoseThatWeirPrints(t *testing.T) {
	m := theManifests(t)
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]rbacv1.ClusterRole{}
	for _, role := range m.roles {
		written[role.Name] = role
	}
	var mirrored []string
	for _, right := range roles.Apart(written["weir-mirrored"].Rules) {
		mirrored = append(mirrored, strings.TrimSuffix(right.Resource+"."+right.Group, "."))
	}
	general := must(roles.Printed(exec.Command(weirBinary(root), "rbac")))(t)
	special := must(roles.Printed(exec.Command(weirBinary(root), "rbac", "--mirror", strings.Join(mirrored, ","))))(t)
	sameRights(t, written["weir-shard"], general["weir-shard"])
	sameRights(t, written["weir-mirrored"], special["weir-mirrored"])
}

func sameRights(t *testing.T, written, printed rbacv1.ClusterRole) {
	t.Helper()
	count := map[roles.Right]int{}
	for _, right := range roles.Apart(written.Rules) {
		count[right] |= 1
	}
	for _, right := range roles.Apart(printed.Rules) {
		count[right] |= 2
	}
	if len(count) == 0 {
		t.Errorf("%s has no rights", written.Name)
	}
	for right, where := range count {
		switch where {
		case 1:
			t.Errorf("%s has %s, which weir does not print", written.Name, right)
		case 2:
			t.Errorf("%s lacks %s, which weir prints", written.Name, right)
		}
	}
}
