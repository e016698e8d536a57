package deploy

import (
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const namespace = "weir"

func theManifests(t *testing.T) *manifests {
	t.Helper()
	m, err := manifestsOnce()
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range m.sets {
		if len(set.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("%s has %d containers", set.Name, len(set.Spec.Template.Spec.Containers))
		}
	}
	return m
}

// must is for what cannot be missing in a manifest.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestEveryShardHasOneSet(t *testing.T) {
	m := theManifests(t)
	var found []int
	for _, set := range m.sets {
		index, count, err := place(&set)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, index)
		if count != len(m.sets) {
			t.Errorf("%s is one of %d shards, and there are %d sets", set.Name, count, len(m.sets))
		}
		if shards := must(flag(set.Spec.Template.Spec.Containers[0], "shards"))(t); shards != fmt.Sprint(count) {
			t.Errorf("%s: --shards=%s and --shard of %d", set.Name, shards, count)
		}
		if set.Name != fmt.Sprintf("weir-shard-%d", index) {
			t.Errorf("%s has shard %d", set.Name, index)
		}
		if set.Spec.Replicas == nil || *set.Spec.Replicas != 2 {
			t.Errorf("%s has not two replicas", set.Name)
		}
		if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			t.Errorf("%s starts its pods one after the other", set.Name)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, []int{0, 1, 2, 3}) {
		t.Errorf("there are sets for the shards %v", found)
	}
}

// What is mended in one file has to be mended in all.
func TestFilesOfShardsDifferInTheirNumberAlone(t *testing.T) {
	m := theManifests(t)
	number := regexp.MustCompile(`(Shard |shard-|"|--shard=)(\d+)`)
	var first string
	for index := range m.sets {
		text, is := m.files[fmt.Sprintf("shard-%d.yaml", index)]
		if !is {
			t.Fatalf("no file for shard %d", index)
		}
		for _, hit := range number.FindAllStringSubmatch(text, -1) {
			if hit[2] != fmt.Sprint(index) {
				t.Errorf("shard-%d.yaml says %q", index, hit[0])
			}
		}
		text = number.ReplaceAllString(text, "${1}N")
		if index == 0 {
			first = text
		} else if text != first {
			t.Errorf("shard-%d.yaml is not as shard-0.yaml", index)
		}
	}
}

// takes tells which sets' pods a selector takes.
func takes(t *testing.T, m *manifests, selector *metav1.LabelSelector) []string {
	t.Helper()
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	if parsed.Empty() {
		t.Fatal("a selector takes everything")
	}
	names := []string{}
	for _, set := range m.sets {
		if parsed.Matches(labels.Set(set.Spec.Template.Labels)) {
			names = append(names, set.Name)
		}
	}
	return names
}

func TestSelectorsTakeThePodsThatTheyAreFor(t *testing.T) {
	m := theManifests(t)
	var all, budgeted []string
	for _, set := range m.sets {
		all = append(all, set.Name)
		if got := takes(t, m, set.Spec.Selector); !slices.Equal(got, []string{set.Name}) {
			t.Errorf("the selector of %s takes the pods of %v", set.Name, got)
		}
		affinity := set.Spec.Template.Spec.Affinity.PodAntiAffinity
		apart := affinity.RequiredDuringSchedulingIgnoredDuringExecution
		if len(apart) != 1 || apart[0].TopologyKey != corev1.LabelHostname {
			t.Fatalf("%s: replicas may share a node", set.Name)
		}
		terms := []corev1.PodAffinityTerm{apart[0]}
		for _, term := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, term.PodAffinityTerm)
		}
		for _, term := range terms {
			if got := takes(t, m, term.LabelSelector); !slices.Equal(got, []string{set.Name}) {
				t.Errorf("%s keeps away from the pods of %v", set.Name, got)
			}
		}
	}
	for _, budget := range m.budgets {
		got := takes(t, m, budget.Spec.Selector)
		if !slices.Equal(got, []string{budget.Name}) {
			t.Errorf("the budget %s is for the pods of %v", budget.Name, got)
		}
		budgeted = append(budgeted, got...)
		if most := budget.Spec.MaxUnavailable; most == nil || most.IntValue() != 1 || budget.Spec.MinAvailable != nil {
			t.Errorf("the budget %s is not one pod", budget.Name)
		}
	}
	if slices.Sort(budgeted); !slices.Equal(budgeted, all) {
		t.Errorf("there are budgets for %v", budgeted)
	}
	if got := takes(t, m, &metav1.LabelSelector{MatchLabels: m.services[0].Spec.Selector}); !slices.Equal(got, all) {
		t.Errorf("the Service leads to %v", got)
	}
	if got := takes(t, m, &m.networks[0].Spec.PodSelector); !slices.Equal(got, all) {
		t.Errorf("the NetworkPolicy protects %v", got)
	}
}

func TestPortsAndNamesAgree(t *testing.T) {
	m := theManifests(t)
	if len(m.services) != 1 || len(m.services[0].Spec.Ports) != 1 {
		t.Fatal("there is another number of Services, or of ports, than one")
	}
	service := m.services[0]
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Error("the Service has an address, or hides nodes that start")
	}
	port := service.Spec.Ports[0]
	for _, set := range m.sets {
		container := set.Spec.Template.Spec.Containers[0]
		peer := fmt.Sprint(numbered(container, "peer"))
		if fmt.Sprint(port.Port) != peer || numbered(container, port.TargetPort.String()) != port.Port {
			t.Errorf("%s: the Service has port %d to %s, the container %s", set.Name, port.Port, port.TargetPort.String(), peer)
		}
		wanted := map[string]string{
			"listen":    "0.0.0.0:" + peer,
			"advertise": "$(POD_IP):" + peer,
			"nodes-dns": net.JoinHostPort(service.Name+"."+service.Namespace+".svc", peer),
			"admin":     fmt.Sprintf("0.0.0.0:%d", numbered(container, "admin")),
		}
		for name, value := range wanted {
			if got := must(flag(container, name))(t); got != value {
				t.Errorf("%s: --%s=%s, not %s", set.Name, name, got, value)
			}
		}
		if set.Spec.ServiceName != service.Name {
			t.Errorf("%s belongs to the Service %q", set.Name, set.Spec.ServiceName)
		}
		env := container.Env
		if len(env) != 1 || env[0].Name != "POD_IP" || env[0].ValueFrom.FieldRef.FieldPath != "status.podIP" {
			t.Errorf("%s: POD_IP is not the pod's address", set.Name)
		}
	}
}

func TestProbesAskTheAdminPort(t *testing.T) {
	for _, set := range theManifests(t).sets {
		container := set.Spec.Template.Spec.Containers[0]
		probes := []struct {
			path  string
			probe *corev1.Probe
		}{
			{"/livez", container.StartupProbe},
			{"/livez", container.LivenessProbe},
			{"/readyz", container.ReadinessProbe},
		}
		for number, p := range probes {
			switch {
			case p.probe == nil || p.probe.HTTPGet == nil:
				t.Errorf("%s has no probe %d", set.Name, number)
			case p.probe.HTTPGet.Path != p.path:
				t.Errorf("%s: probe %d asks for %s, not %s", set.Name, number, p.probe.HTTPGet.Path, p.path)
			case numbered(container, p.probe.HTTPGet.Port.String()) != numbered(container, "admin"):
				t.Errorf("%s: probe %d asks port %s", set.Name, number, p.probe.HTTPGet.Port.String())
			}
		}
	}
}

func TestEachShardHasItsOwnCertificate(t *testing.T) {
	for _, set := range theManifests(t).sets {
		spec := set.Spec.Template.Spec
		container := spec.Containers[0]
		if len(spec.Volumes) != 1 || len(container.VolumeMounts) != 1 {
			t.Fatalf("%s mounts another number of volumes than one", set.Name)
		}
		volume, mount := spec.Volumes[0], container.VolumeMounts[0]
		if volume.Secret == nil || volume.Secret.SecretName != set.Name+"-tls" || len(volume.Secret.Items) != 0 {
			t.Errorf("%s has the volume %v", set.Name, volume)
			continue
		}
		if mount.Name != volume.Name || !mount.ReadOnly || mount.SubPath != "" {
			t.Errorf("%s mounts %v", set.Name, mount)
		}
		if mode := *volume.Secret.DefaultMode; mode != 0o440 || *spec.SecurityContext.FSGroup != *spec.SecurityContext.RunAsGroup {
			t.Errorf("%s: the key has mode %o", set.Name, mode)
		}
		for name, file := range map[string]string{"peer-ca": "ca.crt", "peer-cert": "tls.crt", "peer-key": "tls.key"} {
			if got := must(flag(container, name))(t); got != path.Join(mount.MountPath, file) {
				t.Errorf("%s: --%s=%s", set.Name, name, got)
			}
		}
	}
}

// The profile itself is judged by kube-apiserver; this is what it doesn't ask for.
func TestPodsAreConfined(t *testing.T) {
	m := theManifests(t)
	for _, set := range m.sets {
		spec := set.Spec.Template.Spec
		container := spec.Containers[0]
		if read := container.SecurityContext.ReadOnlyRootFilesystem; read == nil || !*read {
			t.Errorf("%s may write to its image", set.Name)
		}
		if container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Memory().IsZero() {
			t.Errorf("%s may take all memory", set.Name)
		}
		if !container.Resources.Limits.Cpu().IsZero() {
			t.Errorf("%s is throttled: it would fall silent", set.Name)
		}
		// weir gives its connections 10 s to end.
		if grace := spec.TerminationGracePeriodSeconds; grace == nil || *grace < 20 {
			t.Errorf("%s is killed while it ends", set.Name)
		}
		if spec.ServiceAccountName != m.accounts[0].Name || !*spec.AutomountServiceAccountToken {
			t.Errorf("%s: whose token does it have?", set.Name)
		}
	}
	for _, level := range []string{"enforce", "warn", "audit"} {
		if got := m.namespaces[0].Labels["pod-security.kubernetes.io/"+level]; got != "restricted" {
			t.Errorf("the namespace %ss %q", level, got)
		}
	}
}

func TestOnlyPodsOfWeirReachThePeerPort(t *testing.T) {
	m := theManifests(t)
	policy := m.networks[0]
	if len(m.networks) != 1 || len(policy.Spec.Ingress) != 2 {
		t.Fatal("there are other rules than two")
	}
	ports := map[string]bool{}
	for _, rule := range policy.Spec.Ingress {
		if len(rule.From) != 1 || len(rule.Ports) != 1 {
			t.Fatalf("a rule is not one caller and one port: %v", rule)
		}
		from, port := rule.From[0], rule.Ports[0].Port.String()
		ports[port] = true
		if numbered(m.sets[0].Spec.Template.Spec.Containers[0], port) == 0 {
			t.Errorf("a rule is for port %s, which no pod has", port)
		}
		if port == "admin" {
			continue
		}
		if from.NamespaceSelector != nil || from.IPBlock != nil {
			t.Errorf("the peer port is open beyond the namespace: %v", from)
		}
		if got := takes(t, m, from.PodSelector); len(got) != len(m.sets) {
			t.Errorf("of the shards only %v reach the peer port", got)
		}
		wanted := map[string]string{"app.kubernetes.io/name": "weir"}
		if got := from.PodSelector.MatchLabels; fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Errorf("the peer port is open to %v", got)
		}
	}
	if !ports["peer"] || !ports["admin"] {
		t.Errorf("there are rules for %v", ports)
	}
}

func TestRightsAreReadingAndNothingElse(t *testing.T) {
	m := theManifests(t)
	account := m.accounts[0]
	allowed := map[string][]string{"weir-shard": {"get"}, "weir-mirrored": {"list", "watch"}}
	for _, role := range m.roles {
		for _, rule := range role.Rules {
			if !slices.Equal(rule.Verbs, allowed[role.Name]) {
				t.Errorf("%s: verbs %v", role.Name, rule.Verbs)
			}
			named := slices.Concat(rule.APIGroups, rule.Resources)
			if slices.Contains(named, "*") || slices.Contains(named, "secrets") {
				t.Errorf("%s: %v", role.Name, named)
			}
		}
	}
	if len(m.bindings) != len(m.roles) || len(m.roles) != len(allowed) {
		t.Fatalf("%d roles, %d bindings", len(m.roles), len(m.bindings))
	}
	for _, binding := range m.bindings {
		if binding.RoleRef.Name != binding.Name || allowed[binding.Name] == nil {
			t.Errorf("%s binds %s", binding.Name, binding.RoleRef.Name)
		}
		subject := binding.Subjects[0]
		if len(binding.Subjects) != 1 || subject.Kind != "ServiceAccount" || subject.Name != account.Name || subject.Namespace != account.Namespace {
			t.Errorf("%s is for %v", binding.Name, binding.Subjects)
		}
	}
}

func TestEverythingIsInOneNamespace(t *testing.T) {
	m := theManifests(t)
	objects := []metav1.Object{}
	for i := range m.accounts {
		objects = append(objects, &m.accounts[i])
	}
	for i := range m.services {
		objects = append(objects, &m.services[i])
	}
	for i := range m.networks {
		objects = append(objects, &m.networks[i])
	}
	for i := range m.sets {
		objects = append(objects, &m.sets[i])
	}
	for i := range m.budgets {
		objects = append(objects, &m.budgets[i])
	}
	for _, object := range objects {
		if object.GetNamespace() != namespace {
			t.Errorf("%s is in the namespace %q", object.GetName(), object.GetNamespace())
		}
	}
	if m.namespaces[0].Name != namespace || len(m.namespaces) != 1 {
		t.Errorf("the namespace is %q", m.namespaces[0].Name)
	}
}
