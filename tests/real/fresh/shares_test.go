package fresh

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
)

// share is how often one way to ask may reach upstream.
type share struct {
	name     string
	turns    int     // at each place where weir is reached
	requests int     // of one turn
	atLeast  float64 // of the requests must be answered from the mirror
	ask      func(context.Context, *client.Client, *shelf) error
}

// Of what a busy and a quiet kind can prove to be fresh. Whatever names a revision that the mirror has needs no proof.
const (
	busyShare  = 0.95
	quietShare = 0.80
	everything = 1.0
)

// shelf is some objects of a kind in a namespace of their own, made after the kind was mirrored.
type shelf struct {
	kind     kind
	space    string
	from, to uint64 // revisions of the first object and of the last one
}

const shelved = 40

func newShelf(t testing.TB, k kind) *shelf {
	t.Helper()
	mirrorEverywhere(t, k, 0)
	s := &shelf{kind: k, space: namespace(t, "shelf")}
	for i := range shelved {
		s.to = mustWrite(t, http.MethodPost, k.in(s.space), k.object(fmt.Sprintf("s-%d", i), i))
		if i == 0 {
			s.from = s.to
		}
	}
	mirrorEverywhere(t, k, s.to)
	return s
}

// shares are all ways to ask, for a kind of which consistent answers have to reach a share.
func shares(consistent float64) []share {
	exact := "&resourceVersionMatch=Exact"
	return []share{
		{"rv 0", 50, 1, everything, list(func(*shelf) string { return "resourceVersion=0" })},
		{"exact", 50, 1, everything, list(func(s *shelf) string { return fmt.Sprintf("resourceVersion=%d%s", s.to, exact) })},
		{"pages", 10, shelved / pageSize, everything, pages},
		{"resumes", 50, 1, everything, resume},
		{"lists", 100, 1, consistent, list(func(*shelf) string { return "" })},
		{"streams", 50, 1, consistent, stream},
	}
}

// list reads the namespace; a list that holds another number of objects is wrong.
func list(query func(*shelf) string) func(context.Context, *client.Client, *shelf) error {
	return func(ctx context.Context, c *client.Client, s *shelf) error {
		got, err := readList(ctx, c, s.kind.in(s.space)+"?"+query(s))
		if err == nil && len(got.Items) != shelved {
			err = fmt.Errorf("%d objects, want %d", len(got.Items), shelved)
		}
		return err
	}
}

func readList(ctx context.Context, c *client.Client, path string) (client.List, error) {
	answer, err := c.Send(ctx, client.Request{Path: path})
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", answer.Status, client.Excerpt(answer.Body))
	}
	if err != nil {
		return client.List{}, err
	}
	return client.ParseList(answer.Body)
}

const pageSize = 8

// pages reads the namespace at one revision, page by page: several requests.
func pages(ctx context.Context, c *client.Client, s *shelf) error {
	first := fmt.Sprintf("?limit=%d&resourceVersion=%d&resourceVersionMatch=Exact", pageSize, s.to)
	query, found := first, 0
	for {
		page, err := readList(ctx, c, s.kind.in(s.space)+query)
		if err != nil {
			return err
		}
		found += len(page.Items)
		if page.Metadata.Continue == "" {
			break
		}
		query = fmt.Sprintf("?limit=%d&continue=%s", pageSize, page.Metadata.Continue)
	}
	if found != shelved {
		return fmt.Errorf("%d objects on all pages, want %d", found, shelved)
	}
	return nil
}

// resume watches on from the first object.
func resume(ctx context.Context, c *client.Client, s *shelf) error {
	watch, err := c.WatchAhead(ctx, fmt.Sprintf("%s?watch=1&resourceVersion=%d", s.kind.in(s.space), s.from), shelved)
	if err != nil {
		return err
	}
	defer watch.Close()
	for range shelved - 1 {
		if _, err := watch.Next(streamLimit); err != nil {
			return err
		}
	}
	return nil
}

// stream reads the state as a stream.
func stream(ctx context.Context, c *client.Client, s *shelf) error {
	query := "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	watch, err := c.WatchAhead(ctx, s.kind.in(s.space)+query, shelved)
	if err != nil {
		return err
	}
	defer watch.Close()
	for found := 0; ; found++ {
		event, err := watch.Next(streamLimit)
		if err != nil {
			return err
		}
		if event.Type == "BOOKMARK" {
			if found != shelved {
				return fmt.Errorf("%d initial events, want %d", found, shelved)
			}
			return nil
		}
	}
}

// measure takes a share's turns at one place, several at once.
func (s share) measure(t testing.TB, c *client.Client, on *shelf) error {
	const atOnce = 6
	left := make(chan struct{}, s.turns)
	for range s.turns {
		left <- struct{}{}
	}
	close(left)
	failed := make(chan error, s.turns)
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for range left {
				if err := s.ask(t.Context(), c, on); err != nil {
					failed <- fmt.Errorf("%s of %s: %w", s.name, on.kind.plural, err)
				}
			}
		})
	}
	group.Wait()
	close(failed)
	if number := len(failed); number > 0 {
		return fmt.Errorf("%d of %d failed, first: %w", number, s.turns, <-failed)
	}
	return nil
}

// TestCS03_MostAnswersCostUpstreamNothing counts in the audit logs of upstream how many of the requests of weir's clients
// came through. Nothing lags here; what is quiet is so beside a kind that is busy.
func TestCS03_MostAnswersCostUpstreamNothing(t *testing.T) {
	judgesWeirItself(t)
	quiet, busy := newShelf(t, configMaps), newShelf(t, gauges)
	others := gather(t, gauges)
	for _, f := range forms {
		for on, consistent := range map[*shelf]float64{quiet: quietShare, busy: busyShare} {
			t.Run(f.name+" "+on.kind.plural, func(t *testing.T) {
				for _, s := range shares(consistent) {
					assertShare(t, f, on, s)
				}
			})
		}
	}
	others.assertBusy(t)
}

func assertShare(t *testing.T, f *form, on *shelf, s share) {
	t.Helper()
	role := fmt.Sprintf("share-%d", serial.Add(1))
	for _, endpoint := range f.weir.Endpoints {
		if err := s.measure(t, caller(t, endpoint, role), on); err != nil {
			t.Error(err)
		}
	}
	made := s.turns * s.requests * len(f.weir.Endpoints)
	passed := spans(t, audit.Filter{AgentPrefix: "fresh-" + role + "/"})
	kept := 1 - float64(len(passed))/float64(made)
	t.Logf("%-8s %4d asked, %3d at upstream: %.1f %%", s.name, made, len(passed), 100*kept)
	if kept < s.atLeast {
		t.Errorf("%s: upstream saw %d of %d, so %.1f %% came from the mirror and not %.0f %%: %s", s.name, len(passed), made,
			100*kept, 100*s.atLeast, strings.TrimSpace(passed[0].String()))
	}
}
