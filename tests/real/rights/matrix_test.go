package rights

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"weir.dev/tests/real/client"
)

// TestAU12_EveryCallerGetsWhatUpstreamGives lets all sorts of callers ask everything, of weir and of upstream in turns: the
// answers are the same, and what a caller may read of a mirror comes from there.
func TestAU12_EveryCallerGetsWhatUpstreamGives(t *testing.T) {
	t.Parallel()
	all := callers(t)
	var grants []grant
	for _, c := range all {
		grants = append(grants, c.grants...)
		if len(c.rulings) > 0 {
			judge.rule(c.name, c.rulings...)
		}
	}
	give(t, grants...)
	asked := otherQuestions()
	for _, c := range collections {
		asked = append(asked, c.questions()...)
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tally := askAll(t, c, asked)
			t.Logf("%s: %d questions, %d answered, %d by the mirror", c.name, len(asked), tally.answered.Load(), tally.mirrored.Load())
		})
	}
}

// tally counts what came of questions.
type tally struct{ answered, mirrored atomic.Int64 }

// askAll asks some questions at once, half of them at weir first.
func askAll(t *testing.T, c caller, asked []question) *tally {
	weir, upstream := through(t, c.token), direct(t, c.token)
	counted, wrong := &tally{}, faults{t: t}
	var group errgroup.Group
	const atOnce = 8
	group.SetLimit(atOnce)
	for number, q := range asked {
		group.Go(func() error {
			request := client.Request{Path: q.path, Header: http.Header{}}
			maps.Copy(request.Header, q.header)
			maps.Copy(request.Header, c.header)
			got, want, err := both(t, request, weir, upstream, number%2 == 0)
			if err == nil {
				err = counted.judge(c, q, got, want)
			}
			wrong.note(err, fmt.Sprintf("%s: %s %v", c.name, q.path, q.header))
			return nil
		})
	}
	_ = group.Wait() // faults are noted
	wrong.end()
	return counted
}

// both sends a request to weir and to upstream, and returns their answers in this order.
func both(t *testing.T, request client.Request, weir, upstream *client.Client, weirFirst bool) (got, want client.Answer, err error) {
	ask := func(c *client.Client, answer *client.Answer) error {
		var err error
		*answer, err = c.Send(t.Context(), request)
		return err
	}
	if weirFirst {
		return got, want, errors.Join(ask(weir, &got), ask(upstream, &want))
	}
	return got, want, errors.Join(ask(upstream, &want), ask(weir, &got))
}

// judge says what is wrong with an answer of weir's.
func (n *tally) judge(c caller, q question, got, want client.Answer) error {
	isYes := want.Status == http.StatusOK
	fromMirror := client.FromMirror(got.Header)
	if isYes {
		n.answered.Add(1)
	}
	if fromMirror {
		n.mirrored.Add(1)
	}
	if plane.Weir.Plain && q.isSharded && isYes {
		return nil // that apiserver knows the selector
	}
	if plane.Weir.Plain {
		return compare(got, want)
	}
	if q.isSharded && !isRefusal(want.Status) {
		return compareSharded(got, isYes && c.isJudged)
	}
	if err := compare(got, want); err != nil {
		return err
	}
	by := got.Header.Get(client.AnsweredBy)
	switch {
	case fromMirror && (!c.isJudged || !isYes && got.Status < http.StatusBadRequest):
		return fmt.Errorf("the mirror answered: %q", by)
	case !fromMirror && isYes && c.isJudged && q.teller == mirror:
		return fmt.Errorf("the mirror did not answer: %q", by)
	case fromMirror && q.teller == upstream:
		return fmt.Errorf("upstream did not answer: %q", by)
	}
	return nil
}

func isRefusal(status int) bool {
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError
}

// compareSharded judges the answer to a selector that this upstream does not know. It never sees one, so weir answers who
// may read, and tells others to come again, whatever upstream says to the same request without it.
func compareSharded(got client.Answer, mayRead bool) error {
	wanted := http.StatusTooManyRequests
	if mayRead {
		wanted = http.StatusOK
	}
	if got.Status != wanted {
		return fmt.Errorf("status %d, not %d\n%s", got.Status, wanted, client.Excerpt(got.Body))
	}
	return nil
}

// faults reports the first few faults of a test whole and counts the others.
type faults struct {
	t     testing.TB
	mu    sync.Mutex
	count int
}

func (f *faults) note(err error, what string) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	const reported = 5
	if f.count++; f.count <= reported {
		f.t.Errorf("%s: %v", what, err)
	}
}

func (f *faults) end() {
	if f.count > 0 {
		f.t.Errorf("%d answers are not upstream's", f.count)
	}
}
