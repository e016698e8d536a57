package faults

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/record"
	"weir.dev/tests/real/wait"
)

// lister reads whole collections again and again: the newest state, any state, and in pages whose tokens it takes to
// another proxy each time.
type lister struct {
	form
	number  int
	queries []string
	clients []*client.Client
	world   *world
	truth   *record.History

	mu     sync.Mutex
	tally  tally
	faults []string
}

// tally counts what a lister was given.
type tally struct {
	Lists, Pages, Passed, Failed, Expired int
	Refused                               map[int]int   // by status
	Longest                               time.Duration // of a request that was answered
}

// errAnswer is an answer that is no list.
type errAnswer struct {
	status int
	body   string
}

func (e errAnswer) Error() string { return fmt.Sprintf("%d %s", e.status, e.body) }

func (f form) lister(number int, endpoints []client.Endpoint, w *world, truth *record.History) *lister {
	l := &lister{form: f, number: number, world: w, truth: truth, tally: tally{Refused: map[int]int{}}}
	for _, endpoint := range endpoints {
		l.clients = append(l.clients, client.New(endpoint, cluster.AdminToken, fmt.Sprintf("faults-lister-%d/%s", number, f.kind.plural)))
	}
	return l
}

// interval is between two lists of one lister.
const interval = 150 * time.Millisecond

func (l *lister) run(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		l.list(ctx, turn)
		wait.Pause(ctx, interval)
	}
	for _, c := range l.clients {
		c.Close()
	}
}

// list reads the collection once. Pages are asked of one proxy after the other.
func (l *lister) list(ctx context.Context, turn int) {
	query := l.queries[turn%len(l.queries)]
	isNewest := query != "resourceVersion=0"
	known := l.world.acknowledged(l.kind)
	var items [][]byte
	rv := uint64(0)
	for page, next := 0, ""; page == 0 || next != ""; page++ {
		path := l.path("%s", query)
		if next != "" {
			path = l.path("%s&continue=%s", query, url.QueryEscape(next))
		}
		list, err := l.ask(ctx, l.clients[(l.number+turn+page)%len(l.clients)], path)
		if err != nil {
			l.count(err)
			return
		}
		if page > 0 && list.RV() != rv {
			l.complain(fmt.Sprintf("mixed: page %d of a list at %d is at %d", page, rv, list.RV()))
		}
		rv, next = list.RV(), list.Metadata.Continue
		for _, item := range list.Items {
			items = append(items, item)
		}
	}
	l.judge(isNewest, known, rv, items)
}

func (l *lister) judge(isNewest bool, known, rv uint64, items [][]byte) {
	if isNewest {
		for _, fault := range record.CheckFresh(known, rv) {
			l.complain(fault.String())
		}
	}
	if err := l.truth.Await(rv, time.Minute); err != nil {
		l.complain(err.Error())
		return
	}
	for _, fault := range record.CheckList(l.truth, l.match, rv, items) {
		l.complain(fault.String())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Lists++
}

func (l *lister) ask(ctx context.Context, c *client.Client, path string) (client.List, error) {
	asked := time.Now()
	answer, err := c.Send(ctx, client.Request{Path: path})
	if err != nil {
		return client.List{}, err
	}
	took := time.Since(asked)
	if answer.Status != http.StatusOK {
		return client.List{}, errAnswer{answer.Status, client.Excerpt(answer.Body)}
	}
	l.mu.Lock()
	l.tally.Pages++
	l.tally.Longest = max(l.tally.Longest, took)
	if !client.FromMirror(answer.Header) {
		l.tally.Passed++
	}
	l.mu.Unlock()
	return client.ParseList(answer.Body)
}

// count takes down why a list failed.
func (l *lister) count(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	refused, ok := err.(errAnswer)
	switch {
	case !ok:
		l.tally.Failed++
	case refused.status == http.StatusGone:
		l.tally.Expired++
	default:
		l.tally.Refused[refused.status]++
	}
}

func (l *lister) complain(fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) < mostFaults {
		l.faults = append(l.faults, fault)
	}
}
