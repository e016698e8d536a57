package suite

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// asShipped is a client configuration with nothing decided: what programs have that are pointed at weir.
func asShipped(t testing.TB) *rest.Config {
	weir := endpoint(t)
	return &rest.Config{
		Host:            weir.URL,
		BearerToken:     cluster.AdminToken,
		UserAgent:       agent(t, "shipped"),
		TLSClientConfig: rest.TLSClientConfig{CAData: weir.CA},
		QPS:             -1,
	}
}

// TestBW03_InformersAsShipped runs client-go's own informers with their own defaults (newest state, protobuf where the
// client prefers it, metadata only). Who answers is weir's choice; that they follow every change is not.
func TestBW03_InformersAsShipped(t *testing.T) {
	t.Parallel()
	config := asShipped(t)
	space := namespace(t)
	const objects = 5
	var before uint64
	for i := range objects {
		before = write(t, direct(t, cluster.AdminToken), http.MethodPost, configMaps.in(space), configMaps.object(fmt.Sprintf("b-%d", i), ""))
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dynamics, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	metadatas, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	stores := map[string]cache.SharedIndexInformer{
		"typed":    informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithNamespace(space)).Core().V1().ConfigMaps().Informer(),
		"dynamic":  dynamicinformer.NewFilteredDynamicInformer(dynamics, resource, space, 0, cache.Indexers{}, nil).Informer(),
		"metadata": metadatainformer.NewFilteredMetadataInformer(metadatas, resource, space, 0, cache.Indexers{}, nil).Informer(),
	}
	for name, informer := range stores {
		go informer.RunWithContext(t.Context())
		wait.Eventually(t, name+" has its first state", time.Minute, func() error {
			if !informer.HasSynced() || client.RV(informer.LastSyncResourceVersion()) < before {
				return fmt.Errorf("at %q", informer.LastSyncResourceVersion())
			}
			return nil
		})
		if held := len(informer.GetStore().ListKeys()); held != objects {
			t.Errorf("%s: %d objects when it says that it has all of the %d written before", name, held, objects)
		}
	}
	last := shuffle(t, direct(t, cluster.AdminToken), configMaps, space)
	for name, informer := range stores {
		wait.Eventually(t, name+" has the last change", patience, func() error {
			held, exists, err := informer.GetStore().GetByKey(space + "/z")
			if err != nil || !exists || client.RV(held.(metav1.Object).GetResourceVersion()) != last {
				return fmt.Errorf("exists: %v, %v", exists, err)
			}
			return nil
		})
	}
}

// TestPG06_PagerReadsEverything uses client-go's pager as programs do.
func TestPG06_PagerReadsEverything(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	const objects = 57
	populate(t, gauges, space, objects)
	dynamics, err := dynamic.NewForConfig(asShipped(t))
	if err != nil {
		t.Fatal(err)
	}
	of := dynamics.Resource(schema.GroupVersionResource{Group: "metering.weir.test", Version: "v1", Resource: "gauges"}).Namespace(space)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return of.List(ctx, options)
	})
	pages.PageSize = 10
	names := map[string]bool{}
	err = pages.EachListItem(t.Context(), metav1.ListOptions{}, func(object runtime.Object) error {
		names[object.(metav1.Object).GetName()] = true
		return nil
	})
	if err != nil || len(names) != objects {
		t.Errorf("%d of %d objects: %v", len(names), objects, err)
	}
	list, _, err := pages.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if rv := list.(metav1.ListInterface).GetResourceVersion(); client.RV(rv) == 0 {
		t.Errorf("the list of all pages names the revision %q", rv)
	}
}
