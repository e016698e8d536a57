package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// kind is a collection of one of the sizes. Each size is a kind of its own, since weir mirrors kinds.
type kind struct {
	resource string // as weir is told to mirror it
	group    string // path of the group and version
	plural   string
	body     string // what an object has besides its metadata
}

var (
	// gauges are a custom resource, of which there are ten.
	gauges = kind{"gauges.metering.weir.test", "/apis/metering.weir.test/v1", "gauges",
		`"apiVersion":"metering.weir.test/v1","kind":"Gauge","spec":{"color":"green","level":3}`}
	// secrets are a thousand.
	secrets = kind{"secrets", "/api/v1", "secrets", `"apiVersion":"v1","kind":"Secret","stringData":{"token":"` + filler + `"}`}
	// configMaps are the large collection.
	configMaps = kind{"configmaps", "/api/v1", "configmaps", `"apiVersion":"v1","kind":"ConfigMap","data":{"text":"` + filler + `"}`}
	kinds      = []kind{gauges, secrets, configMaps}
	// leases are written while nothing else is: they are not mirrored, and move upstream's revision on.
	leases = kind{"", "/apis/coordination.k8s.io/v1", "leases", `"apiVersion":"coordination.k8s.io/v1","kind":"Lease"`}
)

// filler makes the content of an object about 200 bytes.
var filler = strings.Repeat("water level ", 17)

const (
	fewObjects    = 10
	someObjects   = 1_000
	heartbeats    = 50
	seeders       = 32
	wideSpaces    = 200 // the large collection; at 100,000 objects 500 in each, few enough to be compared
	kubeletSpaces = 50  // the secrets, and what kubelets ask for
)

// stock is the paths of what was made, by kind, in the order in which namespaces take turns.
type stock map[string][]string

func (k kind) collection(space string) string {
	return fmt.Sprintf("%s/namespaces/%s/%s", k.group, space, k.plural)
}

// everywhere is the path of the whole collection.
func (k kind) everywhere() string { return k.group + "/" + k.plural }

func (k kind) object(name string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q},%s}`, name, k.body)
}

// spacePrefix begins the name of every namespace that was made here.
const spacePrefix = "bench-"

func space(n int) string { return fmt.Sprintf("%s%03d", spacePrefix, n) }

// seed fills the collections, what the cluster began with included.
func seed(ctx context.Context, c *cluster.Cluster, objects int) (stock, error) {
	admin := client.New(c.A.Direct(), cluster.AdminToken, "weir-bench/seed")
	defer admin.Close()
	namespaces := kind{"", "/api/v1", "namespaces", `"apiVersion":"v1","kind":"Namespace"`}
	for n := range wideSpaces {
		if _, err := admin.Write(ctx, http.MethodPost, namespaces.everywhere(), namespaces.object(space(n))); err != nil {
			return nil, err
		}
	}
	made := stock{}
	sizes := []struct {
		kind   kind
		size   int
		spaces int
	}{{gauges, fewObjects, 1}, {secrets, someObjects, kubeletSpaces}, {configMaps, objects, wideSpaces}, {leases, heartbeats, 1}}
	for _, wanted := range sizes {
		there, err := count(ctx, admin, wanted.kind)
		if err != nil {
			return nil, err
		}
		paths, err := create(ctx, admin, wanted.kind, wanted.size-there, wanted.spaces)
		if err != nil {
			return nil, err
		}
		made[wanted.kind.plural] = paths
	}
	return made, nil
}

// count is how many objects a collection has.
func count(ctx context.Context, admin *client.Client, k kind) (int, error) {
	answer, err := admin.Send(ctx, client.Request{Path: k.everywhere()})
	if err != nil {
		return 0, err
	}
	list, err := client.ParseList(answer.Body)
	return len(list.Items), err
}

// create makes objects in several namespaces, and returns their paths.
func create(ctx context.Context, admin *client.Client, k kind, number, spaces int) ([]string, error) {
	paths := make([]string, max(0, number))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(seeders)
	for n := range paths {
		group.Go(func() error {
			name, collection := fmt.Sprintf("item-%06d", n/spaces), k.collection(space(n%spaces))
			paths[n] = collection + "/" + name
			_, err := admin.Write(ctx, http.MethodPost, collection, k.object(name))
			return err
		})
	}
	return paths, group.Wait()
}

// near keeps the paths in the namespaces that kubelets ask about.
func near(paths []string) []string {
	var kept []string
	for n, path := range paths {
		if n%wideSpaces < kubeletSpaces {
			kept = append(kept, path)
		}
	}
	return kept
}
