package suite

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// token is what a continue token says. Upstream writes the start key with a slash in front when its cache made the token
// and without when etcd did; both mean the same place, and one chain may mix them.
type token struct {
	Version string `json:"v"`
	RV      int64  `json:"rv"`
	Start   string `json:"start"`
}

func readToken(t testing.TB, text string) token {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("continue token %q: %v", text, err)
	}
	var read token
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatalf("continue token %s: %v", raw, err)
	}
	read.Start = strings.TrimPrefix(read.Start, "/")
	return read
}

var tokenField = regexp.MustCompile(`"continue":"[^"]+"`)

// withoutToken blanks a list's token, so that the rest can be compared as bytes.
func withoutToken(body []byte) []byte {
	return tokenField.ReplaceAll(body, []byte(`"continue":"…"`))
}

// writeToken makes a token that no server gave out; the start is written as JSON text.
func writeToken(rv int64, start string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"v":"meta.k8s.io/v1","rv":%d,"start":"%s"}`, rv, start))
}
