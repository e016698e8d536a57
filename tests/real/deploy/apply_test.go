package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// dryRun has the apiserver do everything but write, refuse fields that it doesn't know, and makes its warnings errors.
var dryRun = []string{"apply", "--server-side", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "--filename"}

func TestManifestsAreAcceptedWithoutWarnings(t *testing.T) {
	m, p := theManifests(t), reached(t, named)
	out, err := p.kubectl("", append(dryRun, "deploy/kubernetes")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wanted := 0
	for _, text := range m.files {
		wanted += strings.Count(text, "\nkind: ")
	}
	if got := strings.Count(out, "serverside-applied (server dry run)"); got != wanted || wanted == 0 {
		t.Errorf("%d of %d objects were judged\n%s", got, wanted, out)
	}
}

// The judge has to be able to say no: each of these is a slip that nobody here would see.
func TestTheJudgeRefusesSlips(t *testing.T) {
	m, p := theManifests(t), reached(t, named)
	slips := []struct{ from, to, complaint string }{
		{"runAsNonRoot: true", "runAsNonRoot: false", "restricted"},
		{"drop: [\"ALL\"]", "drop: []", "restricted"},
		{"podManagementPolicy: Parallel", "podManagmentPolicy: Parallel", "podManagmentPolicy"},
		{"port: admin", "port: administration-of-all", "must be no more than 15"},
		{"topologyKey: kubernetes.io/hostname", "topologyKey: \"\"", "topologyKey"},
	}
	for _, slip := range slips {
		changed := strings.Replace(m.files["shard-0.yaml"], slip.from, slip.to, 1)
		if changed == m.files["shard-0.yaml"] {
			t.Fatalf("the manifest has no %q", slip.from)
		}
		if out, err := p.kubectl(changed, append(dryRun, "-")...); err == nil || !strings.Contains(out, slip.complaint) {
			t.Errorf("%s: %v\n%s", slip.to, err, out)
		}
	}
}

// A set is accepted whatever pods it would make; they are refused one by one, later. So each is tried here.
func TestPodsAreAdmitted(t *testing.T) {
	m, p := theManifests(t), reached(t, named)
	admin := p.Upstream(cluster.AdminToken, "weir-deploy/pods")
	defer admin.Close()
	for _, set := range m.sets {
		template := set.Spec.Template
		body, err := json.Marshal(corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: set.Name + "-0", Labels: template.Labels},
			Spec:       template.Spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		path := "/api/v1/namespaces/" + namespace + "/pods?dryRun=All&fieldValidation=Strict"
		answer, err := admin.Write(t.Context(), http.MethodPost, path, body)
		if err != nil {
			t.Error(err)
		} else if warnings := answer.Header.Values("Warning"); len(warnings) > 0 {
			t.Errorf("%s: %v", set.Name, warnings)
		}
	}
}

// RBAC accepts names of resources that don't exist, so a slip there shows only as a mirror that never comes.
func TestWhatMayBeMirroredExists(t *testing.T) {
	m, p := theManifests(t), reached(t, named)
	admin := p.Upstream(cluster.AdminToken, "weir-deploy/discovery")
	defer admin.Close()
	for _, role := range m.roles {
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				served := watched(t, admin, group)
				for _, resource := range rule.Resources {
					if !slices.Contains(served, resource) {
						t.Errorf("%s: %q has no %q that can be listed and watched", role.Name, group, resource)
					}
				}
			}
		}
	}
}

// watched are the resources of a group's preferred version that can be listed and watched.
func watched(t *testing.T, admin *client.Client, group string) []string {
	t.Helper()
	version := "/api/v1"
	if group != "" {
		var found metav1.APIGroup
		decode(t, admin.Get(t, "/apis/"+group), &found)
		version = "/apis/" + found.PreferredVersion.GroupVersion
	}
	var list metav1.APIResourceList
	decode(t, admin.Get(t, version), &list)
	var names []string
	for _, resource := range list.APIResources {
		if slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "watch") {
			names = append(names, resource.Name)
		}
	}
	return names
}

func decode(t *testing.T, answer client.Answer, into any) {
	t.Helper()
	if err := json.Unmarshal(answer.Body, into); err != nil {
		t.Fatalf("%v\n%s", err, client.Excerpt(answer.Body))
	}
}

// The rights as the cluster understands them, asked for with the shards' own token.
func TestTheIdentityMayReadMirrorsAndNotSecrets(t *testing.T) {
	p := reached(t, installed)
	shard := p.Upstream(accountToken(t, p), "weir-deploy/rights")
	defer shard.Close()
	may := map[string]bool{
		"list /pods": true, "watch /pods": true, "get /pods": false, "delete /pods": false,
		"list apps/deployments": true, "watch discovery.k8s.io/endpointslices": true,
		"list /secrets": false, "watch /secrets": false, "get /secrets": false,
		"list rbac.authorization.k8s.io/clusterroles": false, "create /pods": false, "impersonate /users": false,
	}
	for what, wanted := range may {
		var verb, resource string
		fmt.Sscan(what, &verb, &resource)
		group, resource, _ := strings.Cut(resource, "/")
		attributes := authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource}
		body, err := json.Marshal(authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
			Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
		})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := shard.Write(t.Context(), http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
		if err != nil {
			t.Fatal(err)
		}
		var review authorizationv1.SelfSubjectAccessReview
		if decode(t, answer, &review); review.Status.Allowed != wanted {
			t.Errorf("may the shards %s? %v", what, review.Status.Allowed)
		}
	}
}

func TestSecretsOfTheReadmeAreThoseOfThePods(t *testing.T) {
	m, p := theManifests(t), reached(t, certified)
	for _, set := range m.sets {
		data := secret(t, p, set.Spec.Template.Spec.Volumes[0].Secret.SecretName)
		if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, []string{"ca.crt", "tls.crt", "tls.key"}) {
			t.Errorf("%s finds %v", set.Name, got)
		}
	}
}

// secret is what a Secret of weir's namespace holds.
func secret(t *testing.T, p *plane, name string) map[string][]byte {
	t.Helper()
	admin := p.Upstream(cluster.AdminToken, "weir-deploy/secrets")
	defer admin.Close()
	var found corev1.Secret
	decode(t, admin.Get(t, "/api/v1/namespaces/"+namespace+"/secrets/"+name), &found)
	return found.Data
}

// accountToken is a token as a kubelet would ask for, for the pods of the shards.
func accountToken(t *testing.T, p *plane) string {
	t.Helper()
	admin := p.Upstream(cluster.AdminToken, "weir-deploy/token")
	defer admin.Close()
	account := theManifests(t).accounts[0]
	path := fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", account.Namespace, account.Name)
	answer, err := admin.Write(t.Context(), http.MethodPost, path, []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	var request struct {
		Status struct{ Token string }
	}
	if decode(t, answer, &request); request.Status.Token == "" {
		t.Fatal("no token")
	}
	return request.Status.Token
}
