package rights

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"weir.dev/tests/real/cluster"
)

// caller is somebody who asks, with what entitles him.
type caller struct {
	name string
	// token is sent as a bearer token unless the header says otherwise.
	token  string
	header http.Header
	// isJudged says that weir can have the caller judged: what he may read of a mirror, the mirror gives him.
	isJudged bool

	grants  []grant
	rulings []ruling
}

// The caller whose only rights are those that tell whether rights have reached the authorizer.
const (
	markerToken = "rights-marker"
	markerName  = "marker"
)

// users are callers with a static token: the token's name, the user's name and groups.
var users = []struct{ token, name, groups string }{
	{markerToken, markerName, ""},
	{"spaced", "spaced", "devs"},
	{"borrower", "borrower", "devs"},
	{"namer", "namer", "devs"},
	{"lister", "lister", ""},
	{"watcher", "watcher", ""},
	{"getter", "getter", ""},
	{"logger", "logger", ""},
	{"wide", "wide", ""},
	{"starred", "starred", "stars"},
	{"selective", "selective", ""},
	{"unselective", "unselective", ""},
	{"refused", "refused", ""},
	{"muddled", "muddled", ""},
	{"node", "system:node:gate-1", "system:nodes"},
	{"ungrouped-node", "system:node:gate-2", ""},
	{"unnamed-node", "gate-1", "system:nodes"},
	{"absent-node", "system:node:absent", "system:nodes"},
	{"old-actor", "old-actor", ""},
	{"list-actor", "list-actor", ""},
	{"half-actor", "half-actor", ""},
	{"node-actor", "node-actor", ""},
	{"account-actor", "account-actor", ""},
	{"heard", "heard", ""},
	{"odd", `q"ö 水 %2f/:`, "a b"},
}

// tokens are the lines of the apiserver's file of tokens.
func tokens() []string {
	lines := []string{}
	for number, u := range users {
		lines = append(lines, tokenLine(u.token, u.name, fmt.Sprint("rights-", number), u.groups))
	}
	return append(lines, randomTokens()...)
}

func tokenLine(token, name, uid, groups string) string {
	quoted := func(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }
	return strings.Join([]string{token, quoted(name), uid, quoted(groups)}, ",")
}

// Verbs and groups that rules are made of.
var (
	reads     = []string{"get", "list", "watch"}
	core      = []string{""}
	allGroups = []string{"*"}
	metering  = []string{"metering.weir.test"}
)

// everywhere is the right to read everything.
func everywhere(name string) grant {
	return grant{To: user(name), Rules: []rbacv1.PolicyRule{rights(reads, allGroups, []string{"*"})}}
}

// callers are all sorts of them; their grants and rulings have yet to be made.
func callers(t testing.TB) []caller {
	all := judgedCallers()
	all = append(all, nodes()...)
	all = append(all, selectors()...)
	all = append(all, strangers(t)...)
	all = append(all, actors(t)...)
	return append(all, spellings()...)
}

// judgedCallers are those whom RBAC alone decides about.
func judgedCallers() []caller {
	inLock := []rbacv1.PolicyRule{
		rights(reads, core, []string{"configmaps", "pods", "secrets", "services"}),
		rights(reads, metering, []string{"gauges"}),
	}
	named := []rbacv1.PolicyRule{
		rights(reads, core, []string{"configmaps", "pods", "nodes"}, "levels", "pump", "gate-1"),
		rights(reads, metering, []string{"gauges"}, "north"),
	}
	only := func(name string, verbs ...string) caller {
		rules := []rbacv1.PolicyRule{rights(verbs, []string{"", "metering.weir.test"}, []string{"configmaps", "pods", "nodes", "gauges", "depots", "services"})}
		return caller{name: name, token: name, isJudged: true, grants: []grant{{To: user(name), Rules: rules}}}
	}
	return []caller{
		{name: "admin", token: cluster.AdminToken, isJudged: true},
		{name: "reader", token: cluster.ReaderToken, isJudged: true},
		{name: "nobody", token: cluster.BobToken, isJudged: true},
		{name: "spaced", token: "spaced", isJudged: true, grants: []grant{{To: user("spaced"), Rules: inLock, Space: "lock"}}},
		{name: "borrower", token: "borrower", isJudged: true, grants: []grant{{To: user("borrower"), Rules: inLock, Space: "lock-a", IsBorrowed: true}}},
		{name: "namer", token: "namer", isJudged: true, grants: []grant{{To: user("namer"), Rules: named}}},
		only("lister", "list"), only("watcher", "watch"), only("getter", "get"),
		{name: "logger", token: "logger", isJudged: true, grants: []grant{
			{To: user("logger"), Rules: []rbacv1.PolicyRule{rights([]string{"*"}, core, []string{"pods/log", "pods/status", "*/scale"})}},
		}},
		{name: "wide", token: "wide", isJudged: true, grants: []grant{
			{To: user("wide"), Rules: []rbacv1.PolicyRule{rights(reads, allGroups, []string{"nodes", "depots"})}},
		}},
		{name: "starred", token: "starred", isJudged: true, grants: []grant{
			{To: group("stars"), Rules: []rbacv1.PolicyRule{rights([]string{"*"}, allGroups, []string{"*"})}},
		}},
		{name: "odd", token: "odd", isJudged: true, grants: []grant{{To: user(`q"ö 水 %2f/:`), Rules: inLock, Space: "lock"}}},
	}
}

// nodes are kubelets, true ones and others: the node authorizer lets each read what its pods need.
func nodes() []caller {
	names := []string{"node", "ungrouped-node", "unnamed-node", "absent-node"}
	var all []caller
	for _, name := range names {
		all = append(all, caller{name: name, token: name, isJudged: true})
	}
	return all
}

// selectors are those about whom the webhook decides.
func selectors() []caller {
	return []caller{
		{name: "selective", token: "selective", isJudged: true, rulings: []ruling{
			{Effect: allow, Resource: "pods", Field: "spec.nodeName=gate-1"},
			{Effect: allow, Resource: "configmaps", Label: "app=pump"},
			{Effect: allow, Resource: "gauges", Namespace: "lock", Label: "none"},
			{Effect: allow, Resource: "nodes", Field: "metadata.name=gate-1"},
		}},
		{name: "unselective", token: "unselective", isJudged: true, grants: []grant{everywhere("unselective")}, rulings: []ruling{
			{Effect: deny, Field: "any"}, {Effect: deny, Label: "any"},
		}},
		{name: "refused", token: "refused", isJudged: true, grants: []grant{everywhere("refused")}, rulings: []ruling{
			{Effect: deny, Resource: "secrets"}, {Effect: deny, Verb: "watch"}, {Effect: deny, Namespace: "lock-a"},
			{Effect: deny, Name: "pump"}, {Effect: deny, Subresource: "status"},
		}},
		{name: "muddled", token: "muddled", isJudged: true, grants: []grant{everywhere("muddled")}, rulings: []ruling{
			{Effect: muddle, Resource: "configmaps"}, {Effect: muddle, Namespace: "lock-a"},
		}},
	}
}

// strangers are known by nothing, or by something that upstream does not take.
func strangers(t testing.TB) []caller {
	rules := []rbacv1.PolicyRule{rights(reads, core, []string{"configmaps"})}
	basic := http.Header{"Authorization": {"Basic YWRtaW46YWRtaW4="}}
	return []caller{
		{name: "anonymous", grants: []grant{{To: user("system:anonymous"), Rules: rules, Space: "lock-a"}}},
		{name: "unknown", token: "no such token", isJudged: true},
		{name: "basic", header: basic},
		{name: "empty bearer", header: http.Header{"Authorization": {"Bearer "}}},
		{name: "expired", token: accountToken(t, expired), isJudged: true},
		{name: "too early", token: accountToken(t, early), isJudged: true},
		{name: "forged", token: accountToken(t, forged), isJudged: true},
		{name: "foreign", token: accountToken(t, foreign), isJudged: true},
		{name: "account", token: accountToken(t, valid), isJudged: true, grants: []grant{
			{To: group("system:serviceaccounts:lock"), Rules: []rbacv1.PolicyRule{rights(reads, core, []string{"configmaps", "pods"})}, Space: "lock"},
		}},
	}
}

// actors ask as somebody else, with different rights to do so.
func actors(t testing.TB) []caller {
	as := func(name, token, wanted string, groups ...string) caller {
		header := http.Header{"Impersonate-User": {wanted}}
		if len(groups) > 0 {
			header["Impersonate-Group"] = groups
		}
		return caller{name: name, token: token, header: header}
	}
	may := func(name string, rules ...rbacv1.PolicyRule) []grant { return []grant{{To: user(name), Rules: rules}} }
	authentication := []string{"authentication.k8s.io"}
	old := as("old actor as reader", "old-actor", "reader", "readers")
	old.grants = may("old-actor", rights([]string{"impersonate"}, core, []string{"users", "groups"}))
	list := as("list actor as reader", "list-actor", "reader", "readers")
	list.grants = may("list-actor", rights([]string{"impersonate:user-info"}, authentication, []string{"users", "groups"}),
		rights([]string{"impersonate-on:user-info:list"}, allGroups, []string{"*"}))
	half := as("half an actor as reader", "half-actor", "reader", "readers")
	half.grants = may("half-actor", rights([]string{"impersonate:user-info"}, authentication, []string{"users", "groups"}))
	node := as("node actor as node", "node-actor", "system:node:gate-1")
	node.grants = may("node-actor", rights([]string{"impersonate:arbitrary-node"}, authentication, []string{"nodes"}),
		rights([]string{"impersonate-on:arbitrary-node:list", "impersonate-on:arbitrary-node:get"}, allGroups, []string{"*"}))
	account := as("account actor as account", "account-actor", "system:serviceaccount:lock:keeper")
	account.grants = may("account-actor", rights([]string{"impersonate:serviceaccount"}, authentication, []string{"serviceaccounts"}),
		rights([]string{"impersonate-on:serviceaccount:list", "impersonate-on:serviceaccount:watch"}, allGroups, []string{"*"}))
	agent := as("a node's agent as the node", accountToken(t, onNode), "system:node:gate-1")
	agent.grants = may("system:serviceaccount:lock:"+keeper, rights([]string{"impersonate:associated-node"}, authentication, []string{"nodes"}),
		rights([]string{"impersonate-on:associated-node:list"}, allGroups, []string{"*"}))
	return []caller{
		agent, as("a node's agent as another node", agent.token, "system:node:gate-2"),
		as("admin as nobody", cluster.AdminToken, "bob"), as("admin as reader", cluster.AdminToken, "anybody", "readers"),
		as("nobody as admin", cluster.BobToken, "admin", "system:masters"), as("reader as himself", cluster.ReaderToken, "reader"),
		as("admin as anonymous", cluster.AdminToken, "system:anonymous"), as("anonymous as reader", "", "reader", "readers"),
		old, list, half, node, account,
		{name: "group without user", token: cluster.AdminToken, header: http.Header{"Impersonate-Group": {"readers"}}},
		{name: "as nobody at all", token: cluster.ReaderToken, header: http.Header{"Impersonate-User": {""}}},
		{name: "more about him", token: cluster.AdminToken, header: http.Header{
			"Impersonate-User": {"reader"}, "Impersonate-Uid": {"4"}, "Impersonate-Extra-Scopes": {"a", "b"}, "Impersonate-Group": {"readers", "devs"},
		}},
		{name: "unknown claim", token: cluster.ReaderToken, header: http.Header{"Impersonate-Foo": {"x"}}},
	}
}

// spellings are known callers who say oddly who they are.
func spellings() []caller {
	reader := func(name string, judged bool, values ...string) caller {
		return caller{name: name, header: http.Header{"Authorization": values}, isJudged: judged}
	}
	return []caller{
		reader("small letters", true, "bearer "+cluster.ReaderToken),
		reader("two spaces", false, "Bearer  "+cluster.ReaderToken),
		reader("a space behind", true, "Bearer "+cluster.ReaderToken+" "),
		reader("two credentials, the good one first", true, "Bearer "+cluster.ReaderToken, "Bearer "+cluster.BobToken),
		reader("two credentials, the good one last", true, "Bearer "+cluster.BobToken, "Bearer "+cluster.ReaderToken),
		reader("a comma", false, "Bearer "+cluster.ReaderToken+", Bearer "+cluster.AdminToken),
		{name: "front proxy", token: cluster.ReaderToken, isJudged: true, header: http.Header{
			"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Extra-Scopes": {"all"},
		}},
		{name: "front proxy for nobody", token: cluster.BobToken, isJudged: true, header: http.Header{
			"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}, "Impersonate_User": {"admin"},
		}},
	}
}
