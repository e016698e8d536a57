package rights

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/modes"
)

// seed is that of everything random here; WEIR_SEED repeats a run.
var seed = sync.OnceValue(func() uint64 {
	if text := os.Getenv("WEIR_SEED"); text != "" {
		if given, err := strconv.ParseUint(text, 10, 64); err == nil {
			return given
		}
	}
	return uint64(time.Now().UnixNano())
})

// perCaller is how many questions each random caller asks: rights are made once, before the first.
const perCaller = 8

// randomCallers is how many there are.
func randomCallers() int {
	if modes.IsLong() {
		return 20_000 / perCaller
	}
	return 2_000 / perCaller
}

func randomToken(number int) string { return fmt.Sprint("random-", number) }

// randomGroup is a group that only one of them is in.
func randomGroup(number int) string { return fmt.Sprint("random-group-", number) }

// randomUser is the name of one. Kubelets share theirs.
func randomUser(number int) (name, groups string) {
	groups = randomGroup(number)
	switch number % 10 {
	case 0:
		return fmt.Sprintf("system:node:gate-%d", 1+number/10%3), groups + ",system:nodes"
	case 1:
		return fmt.Sprint("system:serviceaccount:lock:random-", number), groups + ",system:serviceaccounts"
	case 2:
		return fmt.Sprintf("r ö/%%2f\"%d", number), groups
	default:
		return fmt.Sprint("random-", number), groups
	}
}

func randomTokens() []string {
	var lines []string
	for number := range randomCallers() {
		name, groups := randomUser(number)
		lines = append(lines, tokenLine(randomToken(number), name, fmt.Sprint("random-", number), groups))
	}
	return lines
}

// dice makes everything random about one caller.
type dice struct{ *rand.Rand }

func newDice(number int) dice { return dice{rand.New(rand.NewPCG(seed(), uint64(number)))} }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// some takes one or a few.
func some(d dice, from ...string) []string {
	taken := []string{pick(d, from...)}
	for d.chance(40) {
		taken = append(taken, pick(d, from...))
	}
	return taken
}

var (
	spaces    = []string{"lock", "lock-a", "dry"}
	resources = []string{"configmaps", "secrets", "pods", "gauges", "nodes", "depots", "services", "namespaces", "pods/log", "pods/status", "*"}
)

// caller is one with rights at random.
func (d dice) caller(number int) caller {
	name, _ := randomUser(number)
	c := caller{name: name, token: randomToken(number), isJudged: true}
	for range d.IntN(5) {
		c.grants = append(c.grants, d.grant(number, name))
	}
	if d.chance(50) {
		for range 1 + d.IntN(3) {
			c.rulings = append(c.rulings, d.ruling())
		}
	}
	return c
}

func (d dice) grant(number int, name string) grant {
	g := grant{To: group(randomGroup(number)), Space: pick(d, "", "", "lock", "lock", "lock-a", "dry"), IsBorrowed: d.chance(30)}
	if d.chance(50) && !strings.HasPrefix(name, "system:node:") {
		g.To = user(name)
	}
	for range 1 + d.IntN(3) {
		verbs := some(d, "get", "list", "watch", "*")
		if d.chance(50) {
			verbs = reads
		}
		rule := rights(verbs, some(d, "", "", "metering.weir.test", "*", "*"), append(some(d, resources...), some(d, resources...)...))
		if d.chance(20) {
			rule.ResourceNames = some(d, "levels", "names", "pump", "pump-1", "key", "north", "gate-1", "east", "lock")
		}
		g.Rules = append(g.Rules, rule)
	}
	if d.chance(10) {
		g.Rules = append(g.Rules, rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: core, Resources: []string{"users", "groups"}})
	}
	return g
}

func (d dice) ruling() ruling {
	maybe := func(values ...string) string {
		if d.chance(50) {
			return ""
		}
		return pick(d, values...)
	}
	return ruling{
		Effect: pick(d, allow, allow, allow, deny, deny, muddle), Verb: maybe("get", "list", "watch"),
		Resource: maybe("configmaps", "secrets", "pods", "gauges", "nodes", "services"), Namespace: maybe(spaces...),
		Name: maybe("", "levels", "pump", "key", "north"), Field: maybe("any", "none", "spec.nodeName=gate-1", "metadata.name=pump", "spec.color=red"),
		Label: maybe("any", "none", "app=pump", "app!=lamp", "tier Exists "),
	}
}

// question is one at random, straight or crooked.
func (d dice) question() question {
	c := pick(d, collections...)
	space := c.space
	if c.space != "" {
		space = pick(d, append(spaces, "", "lock", "absent")...)
	}
	path := c.in(space)
	query := pick(d, "resourceVersion=0", "resourceVersion=0", "resourceVersion=0", "", "resourceVersion=0&resourceVersionMatch=NotOlderThan")
	switch d.IntN(10) {
	case 0, 1:
		path += "/" + pick(d, c.name, c.name, "absent")
	case 2:
		path += "/" + c.name + pick(d, "/status", "/log", "/scale", "/nothing")
	case 3:
		path = c.old(space) + pick(d, "", "/"+c.name)
	case 4, 5:
		query += short
	case 6:
		query = "resourceVersion=0" + whole
	}
	// Whatever turns out to be a watch ends soon.
	query = strings.Trim(query+d.selectors(c), "&") + "&timeoutSeconds=1"
	return question{path: d.crooked(path) + "?" + strings.TrimPrefix(query, "&"), header: d.header(), teller: either}
}

func (d dice) selectors(c collection) string {
	var text string
	if d.chance(35) {
		text += "&fieldSelector=" + url.QueryEscape(pick(d, c.field, "metadata.name="+c.name, "metadata.name!="+c.name,
			"metadata.namespace=lock", "metadata.name="+c.name+","+c.field, "a=b=c", "spec.nodeName=gate-1", "metadata.name in (a)", ""))
	}
	if d.chance(30) {
		text += "&labelSelector=" + url.QueryEscape(pick(d, c.label, "app=pump", "app!=lamp", "tier", "!tier", "app in (pump)", "a b", "x,,y", ""))
	}
	if d.chance(10) {
		text += "&" + pick(d, "limit=1", "limit=x", "pretty=1", "fieldSelector=metadata.name%3Dother", "x=%zz", "watch=false", "timeout=30s", "sendInitialEvents=true")
	}
	return text
}

// crooked spells a path as some clients do.
func (d dice) crooked(path string) string {
	if !d.chance(12) {
		return path
	}
	return pick(d, strings.Replace(path, "/v1/", "//v1/", 1), path+"/", strings.Replace(path, "lock", "%6cock", 1),
		strings.Replace(path, "/namespaces/", "/namespaces/./", 1), strings.Replace(path, "/v1/", "/v1/watch/", 1), "/"+path,
		strings.Replace(path, "/namespaces/lock/", "/namespaces/dry/../lock/", 1), strings.Replace(path, "/v1/", "/v2/", 1))
}

func (d dice) header() http.Header {
	header := http.Header{}
	if d.chance(15) {
		header["Accept"] = []string{pick(d, encodings...)}
	}
	if d.chance(8) {
		header["Impersonate-User"] = []string{pick(d, "reader", "bob", "admin", "system:node:gate-1", "")}
		if d.chance(50) {
			header["Impersonate-Group"] = []string{pick(d, "readers", "system:masters", "devs")}
		}
	}
	if d.chance(3) {
		header["Authorization"] = []string{pick(d, "", "Bearer ", "Bearer wrong", "Basic x", "Bearer "+cluster.BobToken)}
	}
	if d.chance(3) {
		header["X-Remote-User"] = []string{"admin"}
	}
	return header
}
