package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/yaml"

	"weir.dev/tests/real/client"
)

// seedObjects are what every cluster starts with: two custom resources and a few objects of each kind that the suite lists.
//
//go:embed seed.yaml
var seedObjects []byte

// seedPaths are the collections of the kinds in the seed; %s is the namespace.
var seedPaths = map[string]string{
	"Namespace":                "/api/v1/namespaces",
	"Node":                     "/api/v1/nodes",
	"Pod":                      "/api/v1/namespaces/%s/pods",
	"ConfigMap":                "/api/v1/namespaces/%s/configmaps",
	"Secret":                   "/api/v1/namespaces/%s/secrets",
	"Service":                  "/api/v1/namespaces/%s/services",
	"Deployment":               "/apis/apps/v1/namespaces/%s/deployments",
	"ClusterRole":              "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding":       "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"Gauge":                    "/apis/metering.weir.test/v1/namespaces/%s/gauges",
	"Depot":                    "/apis/metering.weir.test/v1/depots",
}

// seed creates the objects in order. A custom resource is refused for a moment after its definition came, so each
// creation is repeated until it is accepted.
func (c *Cluster) seed(ctx context.Context) error {
	admin := client.New(c.A.Direct(), AdminToken, "weir-suite/seed")
	defer admin.Close()
	for _, document := range bytes.Split(seedObjects, []byte("\n---\n")) {
		object, err := yaml.YAMLToJSON(document)
		if err != nil {
			return err
		}
		parsed, err := client.ParseObject(object)
		if err != nil {
			return err
		}
		path, known := seedPaths[parsed.Kind]
		if !known {
			return fmt.Errorf("seed: no path for kind %q", parsed.Kind)
		}
		if parsed.Metadata.Namespace != "" {
			path = fmt.Sprintf(path, parsed.Metadata.Namespace)
		}
		const limit = 30 * time.Second
		err = poll(ctx, limit, func() error {
			_, err := admin.Write(ctx, http.MethodPost, path, object)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
