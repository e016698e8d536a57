package fresh

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"weir.dev/tests/real/client"
)

// lane is a namespace that one writer alone writes to, one acknowledged write after the other. So what must be in it is
// known for certain.
type lane struct {
	kind     kind
	space    string
	upstream *client.Client
	random   *rand.Rand

	held   map[string]uint64 // name to revision
	last   string            // the name written last: made, changed or deleted
	newest uint64            // no answer may be older; a deletion may have told no revision, then one above the write before
	writes int
}

// mostNames bounds a lane, so that answers stay small: what is judged is their age.
const mostNames = 12

func newLane(t testing.TB, k kind, random *rand.Rand) *lane {
	return &lane{kind: k, space: namespace(t, k.plural), upstream: direct(t), random: random, held: map[string]uint64{}}
}

func (l *lane) collection() string { return l.kind.in(l.space) }

// step makes one write and returns when upstream has acknowledged it.
func (l *lane) step(ctx context.Context) error {
	l.writes++
	names := slices.Sorted(maps.Keys(l.held))
	switch dice := l.random.IntN(10); {
	case len(names) == 0 || dice < 4 && len(names) < mostNames:
		l.last = fmt.Sprintf("n-%d", l.writes)
		return l.put(ctx, http.MethodPost, l.collection())
	case dice < 7:
		l.last = names[l.random.IntN(len(names))]
		return l.put(ctx, http.MethodPatch, l.collection()+"/"+l.last)
	default:
		l.last = names[l.random.IntN(len(names))]
		return l.take(ctx)
	}
}

func (l *lane) put(ctx context.Context, method, path string) error {
	rv, err := write(ctx, l.upstream, method, path, l.kind.object(l.last, l.writes))
	l.held[l.last], l.newest = rv, rv
	return err
}

func (l *lane) take(ctx context.Context) error {
	rv, err := write(ctx, l.upstream, http.MethodDelete, l.collection()+"/"+l.last, nil)
	delete(l.held, l.last)
	l.newest = max(rv, l.newest+1)
	return err
}

// state is what an answer about the whole lane must hold.
func (l *lane) state() map[string]uint64 { return l.held }

// lastOnly is what an answer about the name written last must hold.
func (l *lane) lastOnly() map[string]uint64 {
	if rv, held := l.held[l.last]; held {
		return map[string]uint64{l.last: rv}
	}
	return nil
}

// judge compares an answer with what must be in it.
func (l *lane) judge(got shown, want map[string]uint64) error {
	if got.rv != 0 && got.rv < l.newest {
		return fmt.Errorf("it is at %d, and %d was acknowledged", got.rv, l.newest)
	}
	if !maps.Equal(got.held, want) {
		return fmt.Errorf("it holds %v, and must hold %v (last written: %s)", got.held, want, l.last)
	}
	return nil
}
