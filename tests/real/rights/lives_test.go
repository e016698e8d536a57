package rights

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

const (
	// forgotten bounds the time in which upstream stops to take a token that it has checked before: its memory is 10 s.
	forgotten = 20 * time.Second
	// remembered bounds how long weir goes by what upstream has said: 5 s, and more on a busy machine.
	remembered = 10 * time.Second
)

// TestAU08_TokensThatWereTakenBackAreRefused lets the owner of a token ask all the time, and deletes what the token stands for:
// a service account, or the secret that it is bound to.
func TestAU08_TokensThatWereTakenBackAreRefused(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"account", "secret"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			name := "leaver-" + form
			accountUID(t, name)
			taken, token := "/api/v1/namespaces/lock/serviceaccounts/"+name, ""
			if form == "secret" {
				taken, token = boundToken(t, name)
			} else {
				token = requestToken(t, name, nil)
			}
			give(t, grant{To: user("system:serviceaccount:lock:" + name), Space: "lock", Rules: []rbacv1.PolicyRule{rights(reads, core, []string{"configmaps"})}})
			tokenIsRefused(t, token, taken)
		})
	}
}

// tokenIsRefused deletes an object that a token stands for, and demands that weir refuses the token soon after upstream does.
func tokenIsRefused(t *testing.T, token, taken string) {
	t.Helper()
	weir, upstream := through(t, token), direct(t, token)
	request := client.Request{Path: "/api/v1/namespaces/lock/configmaps?resourceVersion=0"}
	if answer := weir.Get(t, request.Path); !plane.Weir.Plain && !client.FromMirror(answer.Header) {
		t.Fatalf("%s is %q", client.AnsweredBy, answer.Header.Get(client.AnsweredBy))
	}
	if _, err := direct(t, cluster.AdminToken).Write(t.Context(), http.MethodDelete, taken, nil); err != nil {
		t.Fatal(err)
	}
	refused := func(c *client.Client) error {
		answer := c.Must(t, request)
		if answer.Status != http.StatusUnauthorized {
			return fmt.Errorf("%s: %d", c.Endpoint.Name, answer.Status)
		}
		return nil
	}
	wait.Eventually(t, "upstream refuses the token", forgotten, func() error {
		_ = weir.Must(t, request) // whoever asks all the time makes weir remember
		return refused(upstream)
	})
	wait.Eventually(t, "weir refuses the token", remembered, func() error { return refused(weir) })
	for range 20 {
		want, got := upstream.Must(t, request), weir.Must(t, request)
		if err := compare(got, want); err != nil {
			t.Fatal(err)
		}
	}
}

// boundToken makes a secret and a token of a service account that lasts as long as the secret; it returns the secret's path.
func boundToken(t *testing.T, account string) (path, token string) {
	t.Helper()
	body := []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"generateName":"bound-"}}`)
	const secrets = "/api/v1/namespaces/lock/secrets"
	answer, err := direct(t, cluster.AdminToken).Write(t.Context(), http.MethodPost, secrets, body)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := client.ParseObject(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return secrets + "/" + secret.Metadata.Name, requestToken(t, account, &secret)
}

// TestAU10_OwnTokenIsReadAgain changes the file with weir's own token, takes the old token back and breaks all connections:
// weir goes on with the new one, its watchers notice nothing, and nothing is listed anew. It runs alone, since it breaks
// the connections of others too.
func TestAU10_OwnTokenIsReadAgain(t *testing.T) {
	if plane.Weir.Plain {
		t.Skip("an apiserver has no token of its own")
	}
	const own, name = "weir-own", "system:serviceaccount:lock:weir-own"
	accountUID(t, own)
	everything := everywhere(name)
	everything.Rules = append(everything.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"*"}})
	give(t, everything)
	oldSecret, oldToken := boundToken(t, own)
	_, newToken := boundToken(t, own)
	file := filepath.Join(t.TempDir(), "token")
	replace(t, file, oldToken)
	weir, err := plane.StartOwn(t.Context(), "rotating", tokenFileKubeconfig(t, file), []string{"configmaps"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weir.Kill)
	watcher := client.New(weir.Endpoint(0), cluster.AdminToken, "rights-watcher")
	t.Cleanup(watcher.Close)
	space := fmt.Sprint("rotating-", serial.Add(1))
	admin, old := direct(t, cluster.AdminToken), direct(t, oldToken)
	if _, err := admin.Write(t.Context(), http.MethodPost, "/api/v1/namespaces", fmt.Appendf(nil, `{"metadata":{"name":%q}}`, space)); err != nil {
		t.Fatal(err)
	}
	collection := "/api/v1/namespaces/" + space + "/configmaps"
	stream := watcher.MustWatch(t, collection+"?watch=1&resourceVersion=0")
	if !client.FromMirror(stream.Header) {
		t.Fatalf("the watch is not the mirror's: %q", stream.Header.Get(client.AnsweredBy))
	}
	replace(t, file, newToken)
	if _, err := admin.Write(t.Context(), http.MethodDelete, oldSecret, nil); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, "upstream refuses the old token", forgotten, func() error {
		if answer := old.Must(t, client.Request{Path: "/api"}); answer.Status != http.StatusUnauthorized {
			return fmt.Errorf("%d", answer.Status)
		}
		return nil
	})
	since := time.Now()
	if plane.A.Relay.Cut() == 0 {
		t.Fatal("there was no connection to break")
	}
	const soon = 20 * time.Second
	for range 3 {
		name := fmt.Sprint("rotated-", serial.Add(1))
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
		if _, err := admin.Write(t.Context(), http.MethodPost, collection, body); err != nil {
			t.Fatal(err)
		}
		event := stream.Must(t, soon)
		if event.Type != "ADDED" || event.Meta().Metadata.Name != name {
			t.Fatalf("event %s", event.Line)
		}
	}
	if event, err := stream.Next(time.Second); !errors.Is(err, client.ErrQuiet) {
		t.Errorf("the watch goes on with %s, %v", event.Line, err)
	}
	onlyWatched(t, name, since)
}

// onlyWatched demands that a weir read one collection since then by going on with its watch.
func onlyWatched(t *testing.T, name string, since time.Time) {
	t.Helper()
	log := audit.NewLog(plane.A)
	counts := map[string]int{}
	wait.Eventually(t, "weir's watch is in the log", 10*time.Second, func() error {
		clear(counts)
		found, err := log.Requests(audit.Filter{User: name, Resource: "configmaps", Since: since})
		for _, e := range audit.From(found, audit.Feed) {
			// What it asks about one object is for proofs.
			if !strings.Contains(e.URI, "fieldSelector") {
				counts[e.Verb]++
			}
		}
		if err == nil && counts["watch"] == 0 {
			err = io.EOF
		}
		return err
	})
	const most = 3
	if counts["list"] > 0 || counts["watch"] > most {
		t.Errorf("after its token was changed weir asked for %v", counts)
	}
}

// replace changes a file as a kubelet does: there is never half of it.
func replace(t *testing.T, file, content string) {
	t.Helper()
	next := file + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(content+"\n"), 0o600), os.Rename(next, file)); err != nil {
		t.Fatal(err)
	}
}

// tokenFileKubeconfig is a kubeconfig of a user whose token stands in a file.
func tokenFileKubeconfig(t *testing.T, file string) string {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: suite, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: own, user: {tokenFile: %q}}]
contexts: [{name: suite, context: {cluster: suite, user: own}}]
current-context: suite
`, plane.A.Relay.Addr(), authority, file)
	if err := errors.Join(os.WriteFile(authority, plane.A.Direct().CA, 0o600), os.WriteFile(path, []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}
