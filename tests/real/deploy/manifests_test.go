package deploy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"weir.dev/tests/real/cluster"
)

// manifests is all of deploy/kubernetes, by kind.
type manifests struct {
	namespaces []corev1.Namespace
	accounts   []corev1.ServiceAccount
	services   []corev1.Service
	roles      []rbacv1.ClusterRole
	bindings   []rbacv1.ClusterRoleBinding
	networks   []networkingv1.NetworkPolicy
	sets       []appsv1.StatefulSet
	budgets    []policyv1.PodDisruptionBudget

	files map[string]string // as they are written, by name
}

// manifestsOnce reads them once; nobody changes what it returns.
var manifestsOnce = sync.OnceValues(readManifests)

// checkout is the directory that this module is in.
func checkout() (string, error) {
	root, err := cluster.Root()
	return filepath.Join(root, "../.."), err
}

func readManifests() (*manifests, error) {
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(root, "deploy/kubernetes/*.yaml"))
	if err != nil {
		return nil, err
	}
	m := &manifests{files: map[string]string{}}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		m.files[name] = string(content)
		for number, document := range bytes.Split(content, []byte("\n---\n")) {
			if err := m.add(document); err != nil {
				return nil, fmt.Errorf("%s, object %d: %w", name, number, err)
			}
		}
	}
	return m, nil
}

// add reads one object; a field that its kind doesn't have is an error, and so is a kind that nobody here looks at.
func (m *manifests) add(document []byte) error {
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(document, &is); err != nil {
		return err
	}
	switch is.APIVersion + " " + is.Kind {
	case "v1 Namespace":
		return appended(&m.namespaces, document)
	case "v1 ServiceAccount":
		return appended(&m.accounts, document)
	case "v1 Service":
		return appended(&m.services, document)
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return appended(&m.roles, document)
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return appended(&m.bindings, document)
	case "networking.k8s.io/v1 NetworkPolicy":
		return appended(&m.networks, document)
	case "apps/v1 StatefulSet":
		return appended(&m.sets, document)
	case "policy/v1 PodDisruptionBudget":
		return appended(&m.budgets, document)
	}
	return fmt.Errorf("a %s %s is not looked at", is.APIVersion, is.Kind)
}

func appended[T any](list *[]T, document []byte) error {
	var object T
	if err := yaml.UnmarshalStrict(document, &object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

// flag is the value of one argument `--name=value` of a container; it has to be there once.
func flag(container corev1.Container, name string) (string, error) {
	var values []string
	for _, argument := range container.Args {
		if value, is := strings.CutPrefix(argument, "--"+name+"="); is {
			values = append(values, value)
		}
	}
	if len(values) != 1 {
		return "", fmt.Errorf("%s: --%s is there %d times", container.Name, name, len(values))
	}
	return values[0], nil
}

// place is the shard of a set, and of how many, as its arguments say.
func place(set *appsv1.StatefulSet) (index, count int, err error) {
	text, err := flag(set.Spec.Template.Spec.Containers[0], "shard")
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscanf(text, "%d/%d", &index, &count)
	return index, count, err
}

// numbered is the port of a container that a probe or a policy names, by name or number; 0 if there is none.
func numbered(container corev1.Container, named string) int32 {
	for _, port := range container.Ports {
		if port.Name == named || fmt.Sprint(port.ContainerPort) == named {
			return port.ContainerPort
		}
	}
	return 0
}
