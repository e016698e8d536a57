package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// kind is a namespaced kind that is written and watched.
type kind struct {
	plural string
	root   string // of the API
	object string // a format: name, tier, node, count
}

var (
	pods = kind{"pods", "/api/v1", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"tier":%q,"node":%[3]q},` +
		`"annotations":{"count":"%[4]d"}},"spec":{"nodeName":%[3]q,"containers":[{"name":"c","image":"none"}]}}`}
	gauges = kind{"gauges", "/apis/metering.weir.test/v1", `{"apiVersion":"metering.weir.test/v1","kind":"Gauge",` +
		`"metadata":{"name":%q,"labels":{"tier":%q,"node":%q},"annotations":{"count":"%d"}}}`}
	kinds = []kind{pods, gauges}
)

// in is the collection in a namespace, or over all of them.
func (k kind) in(namespace string) string {
	return client.CollectionPath(k.root, namespace, k.plural)
}

// world is the namespaces of one load and what is written into them.
type world struct {
	spaces []string
	names  int // of each writer

	mu    sync.Mutex
	acks  map[uint64]time.Time // by revision, when upstream had acknowledged it
	last  map[string]uint64    // by plural, the newest acknowledged revision
	count int
}

const (
	writers     = 4
	nodeNames   = 3
	namesInEach = 6
)

func newWorld(t testing.TB, upstream *client.Client) *world {
	t.Helper()
	w := &world{names: namesInEach, acks: map[uint64]time.Time{}, last: map[string]uint64{}}
	for range 3 {
		name := fmt.Sprintf("w%d-%d", time.Now().Unix(), serial.Add(1))
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
		if _, err := upstream.Write(t.Context(), http.MethodPost, "/api/v1/namespaces", body); err != nil {
			t.Fatal(err)
		}
		w.spaces = append(w.spaces, name)
	}
	return w
}

// acknowledged is the newest revision of a kind that upstream has acknowledged.
func (w *world) acknowledged(k kind) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[k.plural]
}

// ackedAt is when a revision had been acknowledged.
func (w *world) ackedAt(rv uint64) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, known := w.acks[rv]
	return at, known
}

func (w *world) acknowledge(k kind, answer client.Answer) error {
	object, err := client.ParseObject(answer.Body)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks[object.RV()] = time.Now()
	w.last[k.plural] = max(w.last[k.plural], object.RV())
	w.count++
	return nil
}

// name is one of the objects of a writer; it decides the namespace and the node, which never change.
func (w *world) name(writer, number int) (name, space, node string) {
	return fmt.Sprintf("o-%d-%d", writer, number), w.spaces[(writer+number)%len(w.spaces)], fmt.Sprintf("n%d", number%nodeNames)
}

// writing is one writer: it alone writes its objects, so it knows which of them exist.
type writing struct {
	*world
	number   int
	upstream *client.Client
	random   *rand.Rand
	exists   map[string]bool
	turn     int
}

func (w *world) writer(number int, seed uint64) *writing {
	return &writing{
		world: w, number: number,
		upstream: plane.Upstream(cluster.AdminToken, fmt.Sprintf("faults-writer/%d", number)),
		random:   rand.New(rand.NewPCG(seed, uint64(number))),
		exists:   map[string]bool{},
	}
}

// write creates what doesn't exist; what exists is changed four times out of five, else deleted.
func (w *writing) write(ctx context.Context) error {
	k := kinds[w.random.IntN(len(kinds))]
	number := w.random.IntN(w.names)
	const remove = 5
	return w.change(ctx, k, number, w.random.IntN(remove) == 0)
}

func (w *writing) change(ctx context.Context, k kind, number int, remove bool) error {
	name, space, node := w.name(w.number, number)
	path := k.in(space) + "/" + name
	w.turn++
	tier := string(rune('a' + w.random.IntN(2)))
	if w.exists[path] && remove {
		w.exists[path] = false
		// Without a node's agent nobody would ever end a pod's grace.
		_, err := w.upstream.Write(ctx, http.MethodDelete, path+"?gracePeriodSeconds=0", nil)
		return err
	}
	method, body := http.MethodPatch, fmt.Appendf(nil, `{"metadata":{"labels":{"tier":%q},"annotations":{"count":"%d"}}}`, tier, w.turn)
	if !w.exists[path] {
		method, path, body = http.MethodPost, k.in(space), fmt.Appendf(nil, k.object, name, tier, node, w.turn)
		w.exists[path+"/"+name] = true
	}
	answer, err := w.upstream.Write(ctx, method, path, body)
	if err != nil {
		return err
	}
	return w.acknowledge(k, answer)
}

// everything writes every object of the writer once more, so that every watcher has something to wait for.
func (w *writing) everything(ctx context.Context) error {
	for _, k := range kinds {
		for number := range w.names {
			if err := w.change(ctx, k, number, false); err != nil {
				return err
			}
		}
	}
	return nil
}
