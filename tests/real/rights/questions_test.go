package rights

import (
	"net/http"
	"net/url"

	"weir.dev/tests/real/client"
)

// teller is who has to answer a question of somebody who may ask it.
type teller int

const (
	upstream teller = iota
	mirror
	// either depends on what else goes on: a proof may come too late.
	either
)

// question is a request without a caller.
type question struct {
	path   string
	header http.Header
	teller teller
	// isSharded says that weir's answer is another than that of this upstream, which does not know the selector.
	isSharded bool
}

// collection is a kind that is asked about, with what there is of it.
type collection struct {
	root, plural string
	space, other string // "" for a kind without namespaces
	name         string // of an object that is there
	field, label string // selectors that take some objects
	kept         teller // who has it
}

var collections = []collection{
	{root: "/api/v1", plural: "configmaps", space: "lock", other: "lock-a", name: "levels", field: "metadata.namespace!=dry", label: "app=pump", kept: mirror},
	{root: "/api/v1", plural: "secrets", space: "lock", other: "lock-a", name: "key", field: "type=Opaque", label: "app=pump", kept: mirror},
	{root: "/api/v1", plural: "pods", space: "lock", other: "lock-a", name: "pump", field: "spec.nodeName=gate-1", label: "app in (pump,lamp),tier", kept: mirror},
	{root: "/apis/metering.weir.test/v1", plural: "gauges", space: "lock", other: "lock-a", name: "north", field: "spec.color=red", label: "app!=lamp", kept: mirror},
	{root: "/api/v1", plural: "nodes", name: "gate-1", field: "spec.unschedulable=true", label: "bank", kept: mirror},
	{root: "/apis/metering.weir.test/v1", plural: "depots", name: "east", field: "metadata.name!=west", label: "bank=right", kept: mirror},
	{root: "/api/v1", plural: "services", space: "lock", other: "lock-a", name: "pump", field: "spec.clusterIP=None", label: "app", kept: upstream},
}

// in is the collection in a namespace, or over all.
func (c collection) in(space string) string {
	return client.CollectionPath(c.root, space, c.plural)
}

// old is the path of watches before there was a parameter.
func (c collection) old(space string) string {
	return client.CollectionPath(c.root+"/watch", space, c.plural)
}

const (
	short = "&watch=1&timeoutSeconds=1"
	// whole asks for the state as the beginning of a watch.
	whole = short + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)

// questions are what is asked about a collection.
func (c collection) questions() []question {
	here, all := c.in(c.space), c.in("")
	field, label := "&fieldSelector="+url.QueryEscape(c.field), "&labelSelector="+url.QueryEscape(c.label)
	named := "&fieldSelector=metadata.name%3D" + c.name
	held := func(paths ...string) (all []question) {
		for _, path := range paths {
			all = append(all, question{path: path, teller: c.kept})
		}
		return all
	}
	found := held(
		all+"?resourceVersion=0", here+"?resourceVersion=0"+named, here+"?resourceVersion=0"+field, all+"?resourceVersion=0"+label+field,
		here+"?resourceVersion=0&limit=1", here+"/"+c.name+"?resourceVersion=0",
		all+"?resourceVersion=0"+short, here+"?resourceVersion=0"+short+named, here+"?resourceVersion=0"+short+field,
		c.old(c.space)+"?resourceVersion=0&timeoutSeconds=1", c.old(c.space)+"/"+c.name+"?resourceVersion=0&timeoutSeconds=1"+label,
		here+"?resourceVersion=0"+whole+label,
	)
	if c.space != "" {
		found = append(found, held(c.in(c.space)+"?resourceVersion=0", c.in(c.other)+"?resourceVersion=0", c.in(c.other)+"?resourceVersion=0"+short,
			c.in("absent")+"?resourceVersion=0")...)
	}
	if c.kept == mirror {
		found = append(found, question{path: here, teller: either}, question{path: here + "?" + named[1:], teller: either},
			question{path: here + "?" + whole[1:] + named, teller: either},
			question{path: here + "?resourceVersion=0" + wholeShard, teller: mirror, isSharded: true})
	}
	// A miss, and what a mirror does not know, is upstream's to tell.
	for _, path := range []string{
		here + "/absent?resourceVersion=0", here + "/" + c.name, here + "/" + c.name + "/status", here + "?resourceVersion=x",
		here + "?resourceVersion=0&fieldSelector=a%3Db%3Dc", here + "?resourceVersion=0&labelSelector=%21%21", "/" + here + "?resourceVersion=0",
		c.old("") + "/" + c.name + "?resourceVersion=0&timeoutSeconds=1", c.old("lock") + "/" + c.name + "?resourceVersion=0&timeoutSeconds=1",
	} {
		found = append(found, question{path: path, teller: either})
	}
	return found
}

// wholeShard is a part of the hash space that is all of it.
var wholeShard = "&shardSelector=" + url.QueryEscape("shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')")

// encodings are values of Accept, each of which upstream writes errors differently for.
var encodings = []string{
	"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf;q=0.1,application/json",
	"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
	"application/cbor", "text/html", "*/*", "application/json;pretty=1", "image/png, application/*;q=0.2", "",
}

// otherQuestions are about what no mirror holds.
func otherQuestions() []question {
	var all []question
	for _, path := range []string{
		"/", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/version", "/healthz", "/nothing", "/openapi/v2/none", "/metrics/none",
		"/api/v1/namespaces/lock", "/api/v1/namespaces/lock/pods/pump/log", "/apis/apps/v1/namespaces/lock/deployments/pump/scale",
		"/api/v1/namespaces/lock/nothing?resourceVersion=0", "/apis/none.test/v1/namespaces/lock/things?watch=1",
		"/api/v1/namespaces/lock/nodes?resourceVersion=0", "/api/v1/nodes/gate-1/proxy/pods", "/api/v1/namespaces/lock%2Fsecrets?resourceVersion=0",
		"/api/v1/namespaces/lock/configmaps/../secrets?resourceVersion=0", "/api/v1/namespaces/lock/./secrets?resourceVersion=0",
		"/api/v1/namespaces/lock/%73ecrets?resourceVersion=0", "/api/v1/namespaces//secrets?resourceVersion=0", "/API/V1/secrets?resourceVersion=0",
		"/api/v1/namespaces/lock/configmaps;x/levels?resourceVersion=0", "/api/v1/namespaces/lock/configmaps%2f..%2fsecrets?resourceVersion=0",
	} {
		all = append(all, question{path: path, teller: either})
	}
	for _, accept := range encodings {
		for _, path := range []string{"/api/v1/namespaces/lock/secrets?resourceVersion=0", "/api/v1/configmaps?resourceVersion=0" + short, "/nothing?pretty=1"} {
			all = append(all, question{path: path, header: http.Header{"Accept": {accept}}, teller: either})
		}
	}
	return all
}
