package faults

import (
	"fmt"
	"hash/fnv"
	"net/url"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/record"
)

// form is what one watcher asks for, and which objects that means.
type form struct {
	name      string
	kind      kind
	space     string
	selector  string // query, without a leading &
	match     record.Matcher
	watchList bool // begins with a stream of the state instead of a list
	slow      bool // reads in bursts
}

// path is the form's collection with a query.
func (f form) path(format string, args ...any) string {
	query := fmt.Sprintf(format, args...)
	if f.selector != "" {
		query += "&" + f.selector
	}
	return f.kind.in(f.space) + "?" + query
}

// forms are all ways to watch that differ in how weir serves them.
func (w *world) forms() []form {
	var all []form
	for _, k := range kinds {
		all = append(all,
			form{name: "all", kind: k, match: record.All},
			form{name: "all", kind: k, match: record.All, watchList: true},
			form{name: "namespace", kind: k, space: w.spaces[0], match: inSpace(w.spaces[0])},
			form{name: "label", kind: k, selector: "labelSelector=" + url.QueryEscape("tier=a"), match: labelled("tier", "a")},
			form{name: "label in a namespace", kind: k, space: w.spaces[1], selector: "labelSelector=" + url.QueryEscape("tier in (b)"),
				match: both(inSpace(w.spaces[1]), labelled("tier", "b")), watchList: true},
			w.named(k, 0, 0, false), w.named(k, 1, 1, true),
			form{name: "lower half", kind: k, selector: shardSelector(lowerHalf), match: inLowerHalf},
			form{name: "upper half", kind: k, selector: shardSelector(upperHalf), match: not(inLowerHalf), watchList: true},
		)
	}
	for i := range nodeNames {
		node := fmt.Sprintf("n%d", i)
		all = append(all, form{name: "node", kind: pods, selector: "fieldSelector=" + url.QueryEscape("spec.nodeName="+node),
			match: labelled("node", node), watchList: i%2 == 0})
	}
	return append(all, form{name: "all, slowly", kind: pods, match: record.All, slow: true})
}

func (w *world) named(k kind, writer, number int, watchList bool) form {
	name, space, _ := w.name(writer, number)
	return form{
		name: "name", kind: k, space: space, selector: "fieldSelector=" + url.QueryEscape("metadata.name="+name),
		match: func(o client.Object) bool { return o.Metadata.Name == name && o.Metadata.Namespace == space }, watchList: watchList,
	}
}

func inSpace(space string) record.Matcher {
	return func(o client.Object) bool { return o.Metadata.Namespace == space }
}

func labelled(key, value string) record.Matcher {
	return func(o client.Object) bool { return o.Metadata.Labels[key] == value }
}

func both(one, other record.Matcher) record.Matcher {
	return func(o client.Object) bool { return one(o) && other(o) }
}

func not(match record.Matcher) record.Matcher {
	return func(o client.Object) bool { return !match(o) }
}

// middle parts the space of uid hashes into halves.
const middle = uint64(1) << 63

const (
	lowerHalf = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
	upperHalf = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
)

func shardSelector(text string) string { return "shardSelector=" + url.QueryEscape(text) }

func inLowerHalf(o client.Object) bool { return hashOf(o) < middle }

func hashOf(o client.Object) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(o.Metadata.UID))
	return hash.Sum64()
}

// shardOf is the shard of the fleet that holds an object.
func shardOf(o client.Object) int { return int(hashOf(o) / (1 << 62)) }
