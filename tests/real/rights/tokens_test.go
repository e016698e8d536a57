package rights

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// validity is what is wrong with a service account's token, if anything.
type validity int

const (
	valid validity = iota
	expired
	early
	// forged is signed by nobody whom upstream knows.
	forged
	// foreign is meant for others.
	foreign
	// onNode is valid, and says on which node its owner runs.
	onNode
)

// keeper is the service account of the tokens that the suite signs itself: upstream gives out none that are expired.
const keeper = "keeper"

// accountToken is a token of the service account.
func accountToken(t testing.TB, form validity) string {
	t.Helper()
	now := time.Now()
	audience, from, until := "https://localhost", now.Add(-2*time.Hour), now.Add(time.Hour)
	switch form {
	case expired:
		until = now.Add(-time.Hour)
	case early:
		from = now.Add(30 * time.Minute)
	case foreign:
		audience = "https://elsewhere.test"
	}
	account := map[string]any{"namespace": "lock", "serviceaccount": map[string]string{"name": keeper, "uid": accountUID(t, keeper)}}
	if form == onNode {
		node, err := client.ParseObject(direct(t, cluster.AdminToken).Get(t, "/api/v1/nodes/gate-1").Body)
		if err != nil {
			t.Fatal(err)
		}
		account["node"] = map[string]string{"name": node.Metadata.Name, "uid": node.Metadata.UID}
	}
	claims := map[string]any{
		"iss": "https://localhost", "aud": []string{audience}, "sub": "system:serviceaccount:lock:" + keeper,
		"exp": until.Unix(), "iat": from.Unix(), "nbf": from.Unix(), "kubernetes.io": account,
	}
	key := accountKey(t)
	if form == forged {
		var err error
		if key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			t.Fatal(err)
		}
	}
	return sign(t, key, claims)
}

func sign(t testing.TB, key *rsa.PrivateKey, claims any) string {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256"}`)) + "." + encode(body)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + encode(signature)
}

// accountKey is the key with which the apiserver signs.
func accountKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(plane.Dir, "pki", "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(*rsa.PrivateKey)
}

// accountUID makes a service account if there is none, and returns its uid.
func accountUID(t testing.TB, name string) string {
	t.Helper()
	admin := direct(t, cluster.AdminToken)
	path := "/api/v1/namespaces/lock/serviceaccounts"
	answer := admin.Must(t, client.Request{Path: path + "/" + name})
	if answer.Status == http.StatusNotFound {
		var err error
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":%q}}`, name)
		if answer, err = admin.Write(t.Context(), http.MethodPost, path, body); err != nil {
			t.Fatal(err)
		}
	}
	account, err := client.ParseObject(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return account.Metadata.UID
}

// requestToken has upstream make a token of a service account; with a secret's name and uid it lasts as long as the secret.
func requestToken(t testing.TB, name string, secret *client.Object) string {
	t.Helper()
	bound := "null"
	if secret != nil {
		bound = fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","name":%q,"uid":%q}`, secret.Metadata.Name, secret.Metadata.UID)
	}
	path := fmt.Sprintf("/api/v1/namespaces/lock/serviceaccounts/%s/token", name)
	body := fmt.Appendf(nil, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"boundObjectRef":%s}}`, bound)
	answer, err := direct(t, cluster.AdminToken).Write(t.Context(), http.MethodPost, path, body)
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer.Body, &made); err != nil || made.Status.Token == "" {
		t.Fatalf("no token: %v\n%s", err, client.Excerpt(answer.Body))
	}
	return made.Status.Token
}
