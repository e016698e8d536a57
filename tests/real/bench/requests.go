package main

import (
	"fmt"
	"strings"
	"time"

	"weir.dev/tests/real/audit"
)

// asked is what reached upstream during a run, about the kinds that kubelets want.
type asked struct {
	reviews int // whether a caller may; about any kind
	points  int // consistent lists of nothing, for the revision
	scopes  int // lists of one namespace without content
	wholes  int // lists of a whole collection without content
	catchUp int // second watches
	clients int // requests of the clients themselves: passed through, or straight

	spaces map[string]map[int64]int // by namespace and second, of all but reviews
}

// total is all but reviews.
func (a asked) total() int { return a.points + a.scopes + a.wholes + a.catchUp + a.clients }

// busiest is how much the most asked namespace was asked about: in all, and within one second of the clock.
func (a asked) busiest() (total, second int) {
	for _, seconds := range a.spaces {
		sum := 0
		for _, n := range seconds {
			sum += n
			second = max(second, n)
		}
		total = max(total, sum)
	}
	return total, second
}

// countRequests reads the audit logs once, after all runs, and gives each run what fell into its time.
func (p *plane) countRequests(runs []*kubelets) error {
	entries, err := audit.NewLog(p.Instances...).Requests(audit.Filter{Since: runs[0].began})
	if err != nil {
		return err
	}
	for _, k := range runs {
		k.asked.spaces = map[string]map[int64]int{}
		for _, e := range entries {
			if !e.Received.Before(k.began) && e.Received.Before(k.ended) {
				k.asked.take(e, k.agent)
			}
		}
		if err := k.isComplete(); err != nil {
			return err
		}
	}
	return nil
}

// isComplete fails where the logs lack requests that were certainly made: then nothing that was counted means anything.
func (k *kubelets) isComplete() error {
	if answered := len(k.marks); !k.atWeir && k.asked.clients < answered {
		return fmt.Errorf("%s: the audit logs have %d requests of %d", k.agent, k.asked.clients, answered)
	}
	return nil
}

func (a *asked) take(e audit.Entry, agent string) {
	source := e.Source()
	if source == audit.Review {
		a.reviews++
		return
	}
	if e.ObjectRef.Resource != secrets.plural && e.ObjectRef.Resource != configMaps.plural {
		return
	}
	space := e.ObjectRef.Namespace
	switch {
	case source == audit.Client && e.UserAgent == agent:
		a.clients++
	case source == audit.Client:
		return
	case e.Verb == "watch":
		a.catchUp++
	case space == "":
		a.wholes++
	case strings.HasPrefix(space, spacePrefix):
		a.scopes++
	default:
		a.points++
	}
	if strings.HasPrefix(space, spacePrefix) {
		a.count(space, e.Received)
	}
}

func (a *asked) count(space string, at time.Time) {
	if a.spaces[space] == nil {
		a.spaces[space] = map[int64]int{}
	}
	a.spaces[space][at.Unix()]++
}
