// Package roles takes roles apart into single rights, so that two of them can be compared, or be had without one.
package roles

import (
	"bytes"
	"fmt"
	"os/exec"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// Right is one verb on one path, or on one resource, or on one object of a resource.
type Right struct {
	Verb, Path, Group, Resource, Name string
}

// Printed runs a command that prints manifests, `weir rbac`, and reads the roles among them.
func Printed(command *exec.Cmd) (map[string]rbacv1.ClusterRole, error) {
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", command.Args, err)
	}
	found := map[string]rbacv1.ClusterRole{}
	for _, document := range bytes.Split(out, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(document, &role); err != nil {
			return nil, fmt.Errorf("%v: %w\n%s", command.Args, err, document)
		}
		if role.Kind == "ClusterRole" {
			found[role.Name] = role
		}
	}
	return found, nil
}

// Apart takes rules apart.
func Apart(rules []rbacv1.PolicyRule) []Right {
	var all []Right
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				all = append(all, Right{Verb: verb, Path: path})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						all = append(all, Right{Verb: verb, Group: group, Resource: resource, Name: name})
					}
				}
			}
		}
	}
	return all
}

// Rule is the right as a rule.
func (r Right) Rule() rbacv1.PolicyRule {
	if r.Path != "" {
		return rbacv1.PolicyRule{Verbs: []string{r.Verb}, NonResourceURLs: []string{r.Path}}
	}
	rule := rbacv1.PolicyRule{Verbs: []string{r.Verb}, APIGroups: []string{r.Group}, Resources: []string{r.Resource}}
	if r.Name != "" {
		rule.ResourceNames = []string{r.Name}
	}
	return rule
}

// String is the right as a test's name.
func (r Right) String() string {
	if r.Path != "" {
		return r.Verb + " " + r.Path
	}
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	return text
}
