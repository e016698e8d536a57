package rights

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"weir.dev/tests/real/client"
)

// comparedHeaders are those that a client can act upon.
var comparedHeaders = []string{
	"Content-Type", "Content-Encoding", "Cache-Control", "Warning", "Retry-After", "Www-Authenticate", "X-Content-Type-Options", "Location", "Allow",
}

// compare says in what an answer of weir's is not upstream's.
func compare(got, want client.Answer) error {
	if got.Status != want.Status {
		return fmt.Errorf("status %d, upstream %d\n got: %s\nwant: %s", got.Status, want.Status, client.Excerpt(got.Body), client.Excerpt(want.Body))
	}
	for _, name := range comparedHeaders {
		if g, w := got.Header.Values(name), want.Header.Values(name); fmt.Sprint(g) != fmt.Sprint(w) {
			return fmt.Errorf("header %s is %q, upstream %q", name, g, w)
		}
	}
	if g, w := still(got), still(want); !bytes.Equal(g, w) {
		return fmt.Errorf("other bytes\n got: %s\nwant: %s", client.Excerpt(g), client.Excerpt(w))
	}
	return nil
}

var (
	// listRevision is where a list, or a bookmark, says of which revision it is: an object begins with its name.
	listRevision = regexp.MustCompile(`("metadata":\s*\{\s*(?:"continue":\s*"[^"]*",\s*)?"resourceVersion":\s*")\d+`)
	revision     = regexp.MustCompile(`"resourceVersion":"\d+"`)
	longNumber   = regexp.MustCompile(`\d{3,}`)
	ownAddress   = regexp.MustCompile(`"serverAddress":"[^"]*"`)
	token        = regexp.MustCompile(`eyJ[\w-]+`)
)

const endOfState = `"k8s.io/initial-events-end":"true"`

// still is the body without what moves although nobody writes: the revision of a whole answer, tokens that contain it, what
// follows the state in a stream, and where an apiserver is. Errors are compared as they are.
func still(answer client.Answer) []byte {
	kind := answer.Header.Get("Content-Type")
	switch {
	case answer.Status != http.StatusOK:
		return answer.Body
	case bytes.Contains(answer.Body, []byte("meta.k8s.io")) && bytes.Contains(answer.Body, []byte("columnDefinitions")):
		return nil // a Table says how old things are
	case strings.Contains(kind, "stream=watch"):
		return nil // frames that only upstream makes, with bookmarks at moments of its own
	case !strings.HasPrefix(kind, "application/json"):
		return token.ReplaceAll(longNumber.ReplaceAll(answer.Body, []byte("#")), []byte("#"))
	}
	var lines [][]byte
	for line := range bytes.Lines(answer.Body) {
		isBookmark := bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`))
		if isBookmark {
			line = revision.ReplaceAll(line, []byte(`"resourceVersion":"#"`))
		}
		lines = append(lines, line)
		if isBookmark && bytes.Contains(line, []byte(endOfState)) {
			break
		}
	}
	body := listRevision.ReplaceAll(bytes.Join(lines, nil), []byte("${1}#"))
	body = ownAddress.ReplaceAll(body, []byte(`"serverAddress":"#"`))
	return token.ReplaceAll(body, []byte("#"))
}
