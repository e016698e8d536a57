package main

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir.dev/tests/real/client"
)

// answerLimit bounds one list.
const answerLimit = 30 * time.Second

// figures are what one way of asking came to, over all its turns.
type figures struct {
	mu       sync.Mutex
	firsts   []time.Duration // to the first byte
	ends     []time.Duration // to the end of the answer
	bytes    int64           // of the last answer
	answered map[string]int  // by what weir says of where it came from
	failed   map[string]int

	turns []turn
}

// turn is what everybody used in one turn, the background included.
type turn struct {
	used     spent
	took     time.Duration
	requests int
}

func newFigures() *figures { return &figures{answered: map[string]int{}, failed: map[string]int{}} }

// requests is how many were answered.
func (f *figures) requests() int { return len(f.ends) }

// list asks for a list that was to be asked for at a moment, from which all is counted: a client that comes late because the
// machine was busy has waited all the same.
func (f *figures) list(ctx context.Context, c *client.Client, path string, intended time.Time) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	response, err := c.Open(ctx, client.Request{Path: path})
	if err != nil {
		f.fail(err.Error())
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		f.fail(response.Status)
		return
	}
	one, err := io.ReadFull(response.Body, make([]byte, 1))
	first := time.Since(intended)
	if err != nil {
		f.fail(err.Error())
		return
	}
	rest, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		f.fail(err.Error())
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.firsts, f.ends = append(f.firsts, first), append(f.ends, time.Since(intended))
	f.bytes = int64(one) + rest
	f.answered[source(response.Header)]++
}

func (f *figures) fail(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed[why]++
}

// source is where an answer came from, in a word: the proof, or that it was passed through.
func source(header http.Header) string {
	by := header.Get(client.AnsweredBy)
	if by == "" {
		return "upstream"
	}
	who, how, _ := strings.Cut(by, "; ")
	switch {
	case who != "mirror":
		return by
	case how == "":
		return "mirror"
	default:
		return how
	}
}

// asking is how requests are made.
type asking struct {
	clients pool
	path    string
	rate    int    // a second, on average
	seed    uint64 // of the moments; the same for all ways of asking in a round
}

// pace asks at random moments, as many independent clients do, whether or not the answers keep up, and waits for all answers.
// Even gaps would fall into step with what upstream does ten times a second.
func (f *figures) pace(ctx context.Context, a asking, length time.Duration) {
	every := float64(time.Second) / float64(a.rate)
	random := rand.New(rand.NewPCG(a.seed, 0))
	var group sync.WaitGroup
	began := time.Now()
	due := time.Duration(0)
	for n := 0; ; n++ {
		due += time.Duration(random.ExpFloat64() * every)
		if due >= length || pause(ctx, time.Until(began.Add(due))) != nil {
			break
		}
		intended := began.Add(due)
		group.Go(func() { f.list(ctx, a.clients.turn(n), a.path, intended) })
	}
	group.Wait()
}

// measured does something as one turn of these figures.
func (p *plane) measured(f *figures, do func()) error {
	before, err := p.spentSoFar()
	if err != nil {
		return err
	}
	began, answered := time.Now(), f.requests()
	do()
	took := time.Since(began)
	after, err := p.spentSoFar()
	f.turns = append(f.turns, turn{after.minus(before), took, f.requests() - answered})
	return err
}

// party picks the processor time of one of those that take part.
type party func(spent) time.Duration

// cost is the processor time that a request cost a party beyond what it used in the control's turn of the same round, and
// how far the mean of all rounds may be off (its standard error).
func (f *figures) cost(control *figures, by party) (mean, off time.Duration) {
	var each []float64
	for n, t := range f.turns {
		if t.requests == 0 || n >= len(control.turns) {
			continue
		}
		background := float64(by(control.turns[n].used)) / float64(control.turns[n].took)
		each = append(each, (float64(by(t.used))-background*float64(t.took))/float64(t.requests))
	}
	if len(each) == 0 {
		return 0, 0
	}
	sum, squares := 0.0, 0.0
	for _, one := range each {
		sum += one
	}
	average := sum / float64(len(each))
	for _, one := range each {
		squares += (one - average) * (one - average)
	}
	if len(each) > 1 {
		off = time.Duration(math.Sqrt(squares / float64(len(each)*(len(each)-1))))
	}
	return time.Duration(average), off
}

// failures is how many requests were not answered as they should be.
func (f *figures) failures() int {
	sum := 0
	for _, n := range f.failed {
		sum += n
	}
	return sum
}
