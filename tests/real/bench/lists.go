package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// turnLength is how long one way of asking is measured before the next one is.
	turnLength = 2 * time.Second
	// listClients is how many connections the lists of one way of asking are spread over.
	listClients = 4
	pageSize    = 500
	// pageShare is the part of the rate at which pages of the large collection are asked for: each costs an apiserver tens of
	// milliseconds of processor time.
	pageShare = 4
)

// The ways of asking, in the order of their turns. "Any" is an answer that need not be fresh, which tells what freshness costs.
const (
	weirFresh = iota
	upstreamFresh
	weirAny
	upstreamAny
	ways
)

// form is what is asked of a collection.
type form struct {
	kind    kind
	objects int
	paged   bool // the first page only
	whole   bool // one after the other, since each takes long
}

// cell is one form of list at one pace, asked for in all ways.
type cell struct {
	form
	busy    bool
	ways    [ways]*figures
	control *figures // nobody asks
	writes  float64  // a second, to this kind or to another
}

func (f form) title() string {
	switch {
	case f.paged:
		return fmt.Sprintf("%s, first %d", thousands(f.objects), pageSize)
	case f.whole:
		return thousands(f.objects) + ", all"
	default:
		return thousands(f.objects)
	}
}

func (c *cell) pace() string {
	if c.busy {
		return "busy"
	}
	return "quiet"
}

// path is what a way asks for. A page from a cache is asked for with a revision that every mirror has long passed: with
// resourceVersion=0 the limit would be ignored.
func (f form) path(way int) string {
	isAny := way == weirAny || way == upstreamAny
	switch {
	case f.paged && isAny:
		return fmt.Sprintf("%s?limit=%d&resourceVersion=1&resourceVersionMatch=NotOlderThan", f.kind.everywhere(), pageSize)
	case f.paged:
		return fmt.Sprintf("%s?limit=%d", f.kind.everywhere(), pageSize)
	case isAny:
		return f.kind.everywhere() + "?resourceVersion=0"
	default:
		return f.kind.everywhere()
	}
}

// rate is how many are asked for a second.
func (f form) rate(lists int) int {
	if f.paged {
		return max(1, lists/pageShare)
	}
	return lists
}

// measureLists measures every form at both paces and prints the tables; the first result is what was not answered.
func measureLists(ctx context.Context, p *plane) ([]error, error) {
	forms := []form{
		{kind: gauges, objects: fewObjects},
		{kind: secrets, objects: someObjects},
		{kind: configMaps, objects: p.settings.objects, paged: true},
		{kind: configMaps, objects: p.settings.objects, whole: true},
	}
	var clients [ways]pool
	for way := range clients {
		atWeir := way == weirFresh || way == weirAny
		clients[way] = p.clients(atWeir, "weir-bench/lists", listClients)
		defer clients[way].Close()
	}
	var cells []*cell
	for _, f := range forms {
		for _, busy := range []bool{true, false} {
			measured := newCell(f, busy)
			if err := p.measureCell(ctx, measured, clients); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", f.title(), measured.pace(), err)
			}
			cells = append(cells, measured)
		}
	}
	printLists(cells)
	if err := p.printProofs(ctx); err != nil {
		return nil, err
	}
	var broken []error
	for _, c := range cells {
		broken = append(broken, c.failures()...)
	}
	return broken, nil
}

func newCell(f form, busy bool) *cell {
	c := &cell{form: f, busy: busy, control: newFigures()}
	for way := range c.ways {
		c.ways[way] = newFigures()
	}
	return c
}

// measureCell lets the ways take turns while somebody writes: to the kind, or to another one.
func (p *plane) measureCell(ctx context.Context, c *cell, clients [ways]pool) error {
	written := leases
	if c.busy {
		written = c.kind
	}
	w := p.write(ctx, written)
	err := p.takeTurns(ctx, c, clients)
	rate, failed := w.end()
	c.writes = rate
	if err == nil {
		err = failed
	}
	return err
}

func (p *plane) takeTurns(ctx context.Context, c *cell, clients [ways]pool) error {
	for way := range c.ways { // opens connections, and asks who may read
		newFigures().list(ctx, clients[way].turn(0), c.path(way), time.Now())
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	for round := range max(1, int(p.settings.cell/turnLength)) {
		for way, f := range c.ways {
			how := asking{clients[way], c.path(way), c.rate(p.settings.lists), uint64(round)}
			if err := p.measured(f, func() { c.turn(ctx, f, how) }); err != nil {
				return err
			}
		}
		if err := p.measured(c.control, func() { _ = pause(ctx, turnLength) }); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// turn is one turn of one way.
func (c *cell) turn(ctx context.Context, f *figures, how asking) {
	if c.whole {
		f.list(ctx, how.clients.turn(0), how.path, time.Now())
		return
	}
	f.pace(ctx, how, turnLength)
}

// failures is an error for each way of which requests failed.
func (c *cell) failures() []error {
	var all []error
	for way, f := range c.ways {
		if f.failures() > 0 {
			all = append(all, fmt.Errorf("%w: lists of %s: %v", errBroken, c.path(way), f.failed))
		}
	}
	return all
}
