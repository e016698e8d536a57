package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// injection is one kind of fault: it harms, waits until the harm was seen, and heals. The evidence is gathered while the
// harm lasts. What it says is for the log.
type injection struct {
	name   string
	weight int // how often it comes among others
	inject func(*incident) (string, error)
}

// incident is one fault that is injected.
type incident struct {
	ctx    context.Context
	load   *load
	random *rand.Rand
	before reading
}

// errMissed says that a fault was injected and nothing showed that it had hit.
var errMissed = errors.New("missed")

const (
	// frozen is how long processes stand still and links say nothing.
	frozen = 3 * time.Second
	// late is how much delayed links are late, and slow how long.
	late = 200 * time.Millisecond
	slow = 1500 * time.Millisecond
	// glance is how long links are looked at to see which are used.
	glance = 500 * time.Millisecond
	// notice is how long the evidence of a fault may take to show.
	notice = 6 * time.Second
)

var injections = []injection{
	{"node killed", 4, func(i *incident) (string, error) { return i.kill(i.node(), failovers, sessionsLost) }},
	{"feed killed", 4, func(i *incident) (string, error) { return i.kill(i.feed(), feedLost, sessionsLost) }},
	{"proxy killed", 3, (*incident).killProxy},
	{"node frozen", 4, func(i *incident) (string, error) { return i.freeze(i.node(), failovers, sessionsLost) }},
	{"feed frozen", 3, func(i *incident) (string, error) { return i.freeze(i.feed(), feedLost, failovers, sessionsLost) }},
	{"proxy frozen", 2, (*incident).freezeProxy},
	{"session cut", 4, func(i *incident) (string, error) { return i.cut(i.session(), sessionsLost) }},
	{"subscription cut", 3, func(i *incident) (string, error) { return i.cut(i.subscription(), feedLost) }},
	{"session late", 3, func(i *incident) (string, error) { return i.delay(i.session()) }},
	{"subscription late", 2, func(i *incident) (string, error) { return i.delay(i.subscription()) }},
	{"node not heard", 3, func(i *incident) (string, error) {
		return i.silence(i.session(), cluster.ToClient, failovers, sessionsLost)
	}},
	{"proxy not heard", 2, func(i *incident) (string, error) { return i.silence(i.session(), cluster.ToServer) }},
	{"feed not heard", 2, func(i *incident) (string, error) { return i.silence(i.subscription(), cluster.ToClient, feedLost) }},
	{"upstream late", 3, (*incident).delayUpstream},
	{"upstream cut", 4, (*incident).cutUpstream},
	{"upstream restarted", 1, (*incident).restartUpstream},
	{"compaction", 3, (*incident).compact},
}

// node is any node.
func (i *incident) node() *cluster.Member { return fleet.Nodes[i.random.IntN(len(fleet.Nodes))] }

// proxy is any proxy that has clients, by its number.
func (i *incident) proxy() int {
	number := i.random.IntN(len(fleet.Proxies))
	for range fleet.Proxies {
		if len(i.load.at(number)) > 0 {
			return number
		}
		number = (number + 1) % len(fleet.Proxies)
	}
	return number
}

// feed is a node to which an apiserver is telling something.
func (i *incident) feed() *cluster.Member {
	node, _ := i.reading()
	return node
}

// reading is a node and the apiserver that is telling it something.
func (i *incident) reading() (*cluster.Member, *cluster.Instance) {
	var links []*cluster.Link
	nodes, instances := map[*cluster.Link]*cluster.Member{}, map[*cluster.Link]*cluster.Instance{}
	for _, node := range fleet.Nodes {
		for _, instance := range plane.Instances {
			link := instance.Relay.Link(node.Name)
			links, nodes[link], instances[link] = append(links, link), node, instance
		}
	}
	link := i.busy(links)
	return nodes[link], instances[link]
}

// session is the link of a proxy to a node, subscription that of a node to another that feeds it.
func (i *incident) session() *cluster.Link { return i.link(fleet.Proxies) }

func (i *incident) subscription() *cluster.Link { return i.link(fleet.Nodes) }

func (i *incident) link(observers []*cluster.Member) *cluster.Link {
	var links []*cluster.Link
	for _, node := range fleet.Nodes {
		for _, observer := range observers {
			if observer != node {
				links = append(links, node.From(observer))
			}
		}
	}
	return i.busy(links)
}

// busy is one of the links on which the server tells much now; nil if it says nothing on any. What is said to keep a
// connection alive is little beside what a session, a subscription or a watch brings.
func (i *incident) busy(links []*cluster.Link) *cluster.Link {
	moved := map[*cluster.Link]int{}
	for _, link := range links {
		moved[link] = -link.Moved(cluster.ToClient)
	}
	wait.Pause(i.ctx, glance)
	most := 0
	for _, link := range links {
		moved[link] += link.Moved(cluster.ToClient)
		most = max(most, moved[link])
	}
	var busy []*cluster.Link
	for _, link := range links {
		if link.Open() > 0 && moved[link] > most/4 {
			busy = append(busy, link)
		}
	}
	if len(busy) == 0 {
		return nil
	}
	return busy[i.random.IntN(len(busy))]
}

// seen waits for the evidence.
func (i *incident) seen(evidence func(context.Context) error) error {
	if err := wait.Within(notice, func() error { return evidence(i.ctx) }); err != nil {
		return fmt.Errorf("%w: %w", errMissed, err)
	}
	return nil
}

func (i *incident) kill(node *cluster.Member, counters ...string) (string, error) {
	if node == nil {
		return "", fmt.Errorf("%w: no such node", errMissed)
	}
	node.Kill()
	err := i.seen(counted(fleet, i.before, counters...))
	return node.Name, errors.Join(err, node.Restart())
}

func (i *incident) killProxy() (string, error) {
	number := i.proxy()
	clients := i.load.at(number)
	before := brokenStreams(clients)
	fleet.Proxies[number].Kill()
	err := i.seen(func(context.Context) error {
		if brokenStreams(clients) == before {
			return errors.New("no stream broke")
		}
		return nil
	})
	return fleet.Proxies[number].Name, errors.Join(err, fleet.Proxies[number].Restart())
}

func (i *incident) freeze(node *cluster.Member, counters ...string) (string, error) {
	if node == nil {
		return "", fmt.Errorf("%w: no such node", errMissed)
	}
	if err := node.Pause(); err != nil {
		return node.Name, err
	}
	wait.Pause(i.ctx, frozen)
	err := node.Continue()
	return node.Name, errors.Join(err, i.seen(counted(fleet, i.before, counters...)))
}

// freezeProxy looks at what the proxy's clients see of it: nothing.
func (i *incident) freezeProxy() (string, error) {
	number := i.proxy()
	proxy := fleet.Proxies[number]
	if err := proxy.Pause(); err != nil {
		return proxy.Name, err
	}
	wait.Pause(i.ctx, frozen)
	err := error(nil)
	if least := i.load.leastQuiet(number); least < frozen/2 {
		err = fmt.Errorf("%w: a client of it was told something %s ago", errMissed, least)
	}
	return proxy.Name, errors.Join(err, proxy.Continue())
}

func (i *incident) cut(link *cluster.Link, counters ...string) (string, error) {
	if link == nil {
		return "", fmt.Errorf("%w: no open link", errMissed)
	}
	if link.Cut() == 0 {
		return link.String(), fmt.Errorf("%w: nothing was open", errMissed)
	}
	return link.String(), i.seen(counted(fleet, i.before, counters...))
}

func (i *incident) delay(link *cluster.Link) (string, error) {
	if link == nil {
		return "", fmt.Errorf("%w: no open link", errMissed)
	}
	defer link.Heal()
	before := link.Harmed()
	link.Delay(late)
	wait.Pause(i.ctx, slow)
	return link.String(), i.harmed(link, before)
}

func (i *incident) harmed(link *cluster.Link, before int) error {
	return i.seen(func(context.Context) error {
		if link.Harmed() == before {
			return errors.New("not one byte went that way")
		}
		return nil
	})
}

// silence has its effect in what is counted; where nothing has to be counted, in the bytes that were held.
func (i *incident) silence(link *cluster.Link, direction cluster.Direction, counters ...string) (string, error) {
	if link == nil {
		return "", fmt.Errorf("%w: no open link", errMissed)
	}
	defer link.Heal()
	before := link.Harmed()
	link.Silence(direction, true)
	wait.Pause(i.ctx, frozen)
	if len(counters) == 0 {
		return link.String(), i.harmed(link, before)
	}
	return link.String(), i.seen(counted(fleet, i.before, counters...))
}
