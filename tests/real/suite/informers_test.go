package suite

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
	"weir.dev/tests/real/wait"
)

// start is how an informer gets its first state.
type start string

const (
	byList      start = "list"      // a list from resourceVersion=0, then a watch
	byWatchList start = "watchlist" // a watch that begins with the state
)

// informer is one client-go informer behind weir and a tap on all that it was given.
type informer struct {
	name  string
	kind  kind
	space string // "" for all namespaces
	label string // a label selector, or ""
	start start
	weir  client.Endpoint
	agent string
	tap   *client.Tap

	shared cache.SharedIndexInformer
}

// wave is a set of informers over the same namespaces.
type wave struct {
	informers []*informer
	spaces    []string
	label     string // on every object of the wave
}

const waveSize = 50

// newWave mixes typed and dynamic informers, both ways to start, and three scopes.
func newWave(t testing.TB) *wave {
	t.Helper()
	w := &wave{spaces: []string{namespace(t), namespace(t)}, label: fmt.Sprintf("wave-%d", serial.Add(1))}
	for i := range waveSize {
		in := &informer{
			kind:  bothKinds[i/2%2],
			start: []start{byList, byWatchList}[i%2],
			space: append(w.spaces, "")[i%3],
			weir:  plane.Weir.Endpoint(i / 4), // every form at every proxy
			agent: agent(t, "informer"),
			tap:   &client.Tap{},
		}
		if in.space == "" { // over all namespaces there are objects of other tests
			in.label = "wave=" + w.label
		}
		in.name = fmt.Sprintf("informer %d: %s of %s in %q", i, in.start, in.kind.plural, in.space)
		if err := in.build(i%4 < 2); err != nil {
			t.Fatal(err)
		}
		w.informers = append(w.informers, in)
	}
	return w
}

func (in *informer) config() *rest.Config {
	return &rest.Config{
		Host:            in.weir.URL,
		BearerToken:     cluster.AdminToken,
		UserAgent:       in.agent,
		TLSClientConfig: rest.TLSClientConfig{CAData: in.weir.CA},
		ContentConfig:   rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
		WrapTransport:   in.tap.Wrap,
		QPS:             -1,
	}
}

func (in *informer) build(typed bool) error {
	var lists func(context.Context, metav1.ListOptions) (runtime.Object, error)
	var watches func(context.Context, metav1.ListOptions) (watch.Interface, error)
	var example runtime.Object
	if typed && in.kind == configMaps {
		set, err := kubernetes.NewForConfig(in.config())
		if err != nil {
			return err
		}
		of := set.CoreV1().ConfigMaps(in.space)
		example = &corev1.ConfigMap{}
		lists = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, o) }
		watches = of.Watch
	} else {
		set, err := dynamic.NewForConfig(in.config())
		if err != nil {
			return err
		}
		version, err := schema.ParseGroupVersion(in.kind.apiVersion)
		if err != nil {
			return err
		}
		of := set.Resource(version.WithResource(in.kind.plural)).Namespace(in.space)
		example = &unstructured.Unstructured{}
		lists = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, o) }
		watches = of.Watch
	}
	in.shared = cache.NewSharedIndexInformer(in.listerWatcher(lists, watches), example, 0, cache.Indexers{})
	return nil
}

// listOnly tells the reflector that its server knows no initial events.
type listOnly struct{ *cache.ListWatch }

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

func (in *informer) listerWatcher(lists cache.ListWithContextFunc, watches cache.WatchFuncWithContext) cache.ListerWatcher {
	both := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = in.label
			return lists(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = in.label
			if o.ResourceVersion == "" { // the reflector asks for the newest state; here any state will do
				o.ResourceVersion = "0"
			}
			return watches(ctx, o)
		},
	}
	if in.start == byList {
		return listOnly{both}
	}
	return both
}

// matches says which objects of its kind an informer asked for.
func (in *informer) matches(label string) record.Matcher {
	return func(o client.Object) bool {
		return (in.space == "" || o.Metadata.Namespace == in.space) && o.Metadata.Labels["wave"] == label
	}
}

// run starts all informers and waits until each has its first state.
func (w *wave) run(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for _, in := range w.informers {
		go in.shared.RunWithContext(ctx)
	}
	for _, in := range w.informers {
		wait.Eventually(t, in.name+" has its first state", time.Minute, func() error {
			if !in.shared.HasSynced() {
				return fmt.Errorf("last exchange %s", in.lastExchange())
			}
			return nil
		})
	}
}

func (in *informer) lastExchange() string {
	all := in.tap.Exchanges()
	if len(all) == 0 {
		return "none"
	}
	last := all[len(all)-1]
	return fmt.Sprintf("%d of %s?%s: %s", last.Status, last.Path, last.Query.Encode(), client.Excerpt(last.Body()))
}

// TestWR04_InformersSeeEveryChangeOnce runs client-go informers against 200 writes a second while one apiserver is stopped,
// continued and restarted, and judges every byte that they were given.
func TestWR04_InformersSeeEveryChangeOnce(t *testing.T) {
	upstream := direct(t, cluster.AdminToken)
	w := newWave(t)
	truth := map[kind]*record.Recorder{}
	churn := newChurn(t, w)
	for _, k := range bothKinds {
		truth[k] = record.Start(t, upstream, k.in("")+"?labelSelector=wave%3D"+w.label)
	}
	for k, rv := range churn.prepare(t, upstream) {
		for _, weir := range plane.Weir.Endpoints {
			awaitMirror(t, mirroredAt(t, weir, cluster.AdminToken), k.in("dry"), rv)
		}
	}
	w.run(t)

	trouble := make(chan error, 1)
	go func() { trouble <- troubleA(t.Context(), churn.length()) }()
	rate, least := churn.run(t, upstream), float64(slowestRate)
	if topology().Shards > 0 {
		least = slowestByParts
	}
	if err := <-trouble; err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d writes, %.0f a second", churn.writes.Load(), rate); rate < least {
		t.Errorf("%.0f writes a second are too few to show anything", rate)
	}
	last := churn.finish(t, upstream)
	for k, r := range truth {
		if err := r.Await(last[k], time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	for _, in := range w.informers {
		in.judge(t, truth[in.kind].History, last[in.kind], w.label)
	}
}

// troubleA freezes instance A for a fifth of the time, lets it go on, and restarts it after half of the time.
func troubleA(ctx context.Context, length time.Duration) error {
	steps := []func() error{
		plane.A.Process().Stop,
		plane.A.Process().Continue,
		func() error { return plane.A.Restart(ctx) },
	}
	for i, step := range steps {
		timer := time.NewTimer(length / 5)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return plane.A.Process().Continue()
		}
		if err := step(); err != nil {
			return fmt.Errorf("trouble %d: %w", i, err)
		}
	}
	return nil
}

// judge compares one informer's store and all that it was given with the truth.
func (in *informer) judge(t *testing.T, truth *record.History, last uint64, label string) {
	t.Helper()
	want, err := truth.Snapshot(in.matches(label), last)
	if err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, in.name+" equals upstream", time.Minute, func() error { return in.compareStore(want) })
	lists := 0
	for _, e := range in.tap.Exchanges() {
		if e.Status != http.StatusOK {
			if !plane.Weir.Plain {
				t.Errorf("%s: status %d: %s", in.name, e.Status, client.Excerpt(e.Body()))
			}
			continue
		}
		assertMirror(t, in.name, e.Header)
		if e.IsWatch() {
			in.judgeWatch(t, truth, e, last, label)
			continue
		}
		if e.Query.Get("resourceVersionMatch") != "Exact" { // those are the detector's
			lists++
		}
		list := parseList(t, e.Body())
		var items [][]byte
		for _, item := range list.Items {
			items = append(items, item)
		}
		report(t, in.name, record.CheckList(truth, in.matches(label), list.RV(), items))
	}
	if want := map[start]int{byList: 1}[in.start]; lists != want {
		t.Errorf("%s: %d lists, want %d: nothing forced it to list again", in.name, lists, want)
	}
	assertUnseen(t, in.agent)
}

func (in *informer) judgeWatch(t *testing.T, truth *record.History, e *client.Exchange, last uint64, label string) {
	t.Helper()
	events, err := e.Events()
	if err != nil && err != io.EOF {
		t.Errorf("%s: %v", in.name, err)
	}
	if len(events) > 0 && events[len(events)-1].Type == "ERROR" {
		t.Errorf("%s: %s", in.name, events[len(events)-1].Line)
		events = events[:len(events)-1]
	}
	w := record.Watched{Events: events, Initial: e.Query.Get("sendInitialEvents") == "true", After: client.RV(e.Query.Get("resourceVersion"))}
	report(t, in.name, record.CheckWatch(truth, in.matches(label), w))
}

func report(t testing.TB, who string, faults []record.Fault) {
	t.Helper()
	for _, fault := range faults {
		t.Errorf("%s: %s", who, fault)
	}
}

func (in *informer) compareStore(want []record.Item) error {
	store := in.shared.GetStore()
	for _, item := range want {
		held, exists, err := store.GetByKey(item.Key())
		if err != nil || !exists {
			return fmt.Errorf("%s is missing: %v", item.Key(), err)
		}
		object, ok := held.(metav1.Object)
		if !ok || object.GetResourceVersion() != item.Metadata.ResourceVersion || string(object.GetUID()) != item.Metadata.UID {
			return fmt.Errorf("%s is at %s, want %s", item.Key(), object.GetResourceVersion(), item.Metadata.ResourceVersion)
		}
	}
	if held := len(store.ListKeys()); held != len(want) {
		return fmt.Errorf("%d objects, want %d", held, len(want))
	}
	return nil
}
