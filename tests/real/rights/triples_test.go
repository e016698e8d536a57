package rights

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// TestAU05_RandomRightsAndRequestsAgreeWithUpstream makes callers, gives each rights at random, and lets each ask a few things
// at random. Rights are made once, before the first question, so nothing that is remembered is older than they are.
func TestAU05_RandomRightsAndRequestsAgreeWithUpstream(t *testing.T) {
	t.Parallel()
	t.Logf("WEIR_SEED=%d", seed())
	all := make([]caller, randomCallers())
	admin := direct(t, cluster.AdminToken)
	var writers errgroup.Group
	const writersAtOnce = 16
	writers.SetLimit(writersAtOnce)
	for number := range all {
		all[number] = newDice(number).caller(number)
		if rulings := all[number].rulings; len(rulings) > 0 {
			judge.rule(randomGroup(number), rulings...)
		}
		for _, g := range all[number].grants {
			writers.Go(func() error {
				_, err := g.write(t.Context(), admin)
				return err
			})
		}
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	settle(t)
	counted := triples{wrong: faults{t: t}}
	var group errgroup.Group
	const callersAtOnce = 32
	group.SetLimit(callersAtOnce)
	for number, c := range all {
		group.Go(func() error {
			counted.ask(t, number, c)
			return nil
		})
	}
	_ = group.Wait() // faults are noted
	counted.wrong.end()
	counted.mustMean(t, int64(len(all)*perCaller))
}

// triples counts what came of the questions, which have to be of many sorts for the test to mean anything.
type triples struct {
	tally
	refused atomic.Int64
	wrong   faults
}

// ask has one caller ask; the dice go on from where the caller came from.
func (n *triples) ask(t *testing.T, number int, c caller) {
	weir, upstream := through(t, c.token), direct(t, c.token)
	d := newDice(number + 1<<32)
	for turn := range perCaller {
		q := d.question()
		asker := c
		// weir has nobody judged who asks as another, or says otherwise who it is.
		asker.isJudged = q.header["Impersonate-User"] == nil && q.header["Authorization"] == nil
		got, want, err := both(t, client.Request{Path: q.path, Header: q.header}, weir, upstream, (number+turn)%2 == 0)
		if err == nil {
			err = n.judge(asker, q, got, want)
		}
		switch want.Status {
		case http.StatusForbidden, http.StatusUnauthorized:
			n.refused.Add(1)
		}
		n.wrong.note(err, describe(number, c, q))
	}
}

// mustMean demands that there were enough of each sort.
func (n *triples) mustMean(t *testing.T, asked int64) {
	answered, refused, mirrored := n.answered.Load(), n.refused.Load(), n.mirrored.Load()
	t.Logf("%d questions: %d answered, %d refused, %d by the mirror", asked, answered, refused, mirrored)
	if answered < asked/10 || refused < asked/10 || (!plane.Weir.Plain && mirrored < asked/20) {
		t.Errorf("too few of a sort")
	}
}

func describe(number int, c caller, q question) string {
	grants, _ := json.Marshal(c.grants)
	rulings, _ := json.Marshal(c.rulings)
	return fmt.Sprintf("WEIR_SEED=%d, caller %d (%s): %s %v\ngrants %s\nrulings %s", seed(), number, c.name, q.path, q.header, grants, rulings)
}
