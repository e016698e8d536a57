package fresh

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"weir.dev/tests/real/client"
)

// shown is what a client was given of a lane.
type shown struct {
	rv   uint64 // of the answer; 0 where it names none
	held map[string]uint64
	by   string // who answered
}

// reading is one way to ask what is in a lane.
type reading struct {
	name string
	read func(context.Context, *client.Client, *lane) (shown, error)
	want func(*lane) map[string]uint64
}

// readings are the ways to ask without a resourceVersion. Each must show what was acknowledged before.
var readings = []reading{
	{"list of the namespace", listed(inLane, ""), (*lane).state},
	{"list of all namespaces", listed(everywhere, ""), (*lane).state},
	{"list by label", listed(inLane, "labelSelector=version"), (*lane).state},
	{"first page", listed(inLane, "limit=500"), (*lane).state},
	{"stream of the namespace", streamed(inLane, nil), (*lane).state},
	{"stream of all namespaces", streamed(everywhere, nil), (*lane).state},
	{"stream of one name", streamed(inLane, (*lane).byName), (*lane).lastOnly},
	{"watch without a revision", watched, (*lane).state},
}

// staleReadings are what the others must not be like.
var staleReadings = []reading{{"list at any revision", listed(inLane, "resourceVersion=0"), (*lane).state}}

func inLane(l *lane) string { return l.collection() }

func everywhere(l *lane) string { return l.kind.in("") }

func (l *lane) byName() string { return "fieldSelector=" + url.QueryEscape("metadata.name="+l.last) }

func listed(path func(*lane) string, query string) func(context.Context, *client.Client, *lane) (shown, error) {
	return func(ctx context.Context, c *client.Client, l *lane) (shown, error) {
		answer, err := c.Send(ctx, client.Request{Path: path(l) + "?" + query})
		if err != nil {
			return shown{by: answer.Header.Get(client.AnsweredBy)}, err
		}
		if answer.Status != http.StatusOK {
			return shown{by: answer.Header.Get(client.AnsweredBy)}, fmt.Errorf("%d %s", answer.Status, client.Excerpt(answer.Body))
		}
		list, err := client.ParseList(answer.Body)
		got := shown{list.RV(), map[string]uint64{}, answer.Header.Get(client.AnsweredBy)}
		for _, item := range list.Items {
			object, err := client.ParseObject(item)
			if err != nil {
				return got, err
			}
			got.take(l, object)
		}
		return got, err
	}
}

// take notes an object if it is the lane's.
func (s *shown) take(l *lane, object client.Object) {
	if object.Metadata.Namespace == l.space {
		s.held[object.Metadata.Name] = object.RV()
	}
}

// streamLimit bounds the wait for one event that is due.
const streamLimit = 30 * time.Second

// ahead is how many events of a stream are read before they are asked for: more than a lane has.
const ahead = 64

func streamed(path func(*lane) string, selector func(*lane) string) func(context.Context, *client.Client, *lane) (shown, error) {
	return func(ctx context.Context, c *client.Client, l *lane) (shown, error) {
		query := "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
		if selector != nil {
			query += "&" + selector(l)
		}
		stream, err := c.WatchAhead(ctx, path(l)+query, ahead)
		if err != nil {
			return shown{}, err
		}
		defer stream.Close()
		got := shown{0, map[string]uint64{}, stream.Header.Get(client.AnsweredBy)}
		for {
			event, err := stream.Next(streamLimit)
			if err != nil {
				return got, err
			}
			object := event.Meta()
			switch {
			case event.Type == "ADDED":
				got.take(l, object)
			case event.Type == "BOOKMARK" && object.EndsInitialEvents():
				got.rv = object.RV()
				return got, nil
			default:
				return got, fmt.Errorf("among the initial events: %s", event.Line)
			}
		}
	}
}

// watched begins a watch that marks no end of its initial events; as many as there are objects are waited for.
func watched(ctx context.Context, c *client.Client, l *lane) (shown, error) {
	stream, err := c.WatchAhead(ctx, l.collection()+"?watch=1", ahead)
	if err != nil {
		return shown{}, err
	}
	defer stream.Close()
	got := shown{0, map[string]uint64{}, stream.Header.Get(client.AnsweredBy)}
	for range l.held {
		event, err := stream.Next(streamLimit)
		if err != nil {
			return got, err
		}
		if event.Type != "ADDED" {
			return got, fmt.Errorf("among the initial events: %s", event.Line)
		}
		got.take(l, event.Meta())
	}
	return got, nil
}
