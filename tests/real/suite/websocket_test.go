package suite

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// webSocket opens one; an answer other than 101 comes back with the error.
func webSocket(t testing.TB, endpoint client.Endpoint, path string, header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(endpoint.CA)
	dialer := websocket.Dialer{
		TLSClientConfig:  &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}},
		HandshakeTimeout: patience,
		Subprotocols:     protocols,
	}
	socket, answer, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(endpoint.URL, "https")+path, header)
	if err == nil {
		t.Cleanup(func() { socket.Close() })
	}
	return socket, answer, err
}

// page is the header of a page that asks with the admin's token.
func page() http.Header {
	return http.Header{"Origin": {"https://weir.test"}, "Authorization": {"Bearer " + cluster.AdminToken}}
}

// readFrames reads text frames until there are as many as wanted, or the socket is closed.
func readFrames(t testing.TB, socket *websocket.Conn, most int) ([]string, error) {
	t.Helper()
	var read []string
	for len(read) < most {
		if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		kind, text, err := socket.ReadMessage()
		if err != nil {
			return read, err
		}
		if kind != websocket.TextMessage {
			t.Errorf("a frame of kind %d: %q", kind, text)
		}
		read = append(read, strings.TrimSuffix(string(text), "\n"))
	}
	return read, nil
}

// TestUG01_WatchesOverWebSocket watches a mirrored kind and one that is not, at weir and at upstream: one frame for each event,
// the same at both, and pings are answered.
func TestUG01_WatchesOverWebSocket(t *testing.T) {
	t.Parallel()
	upstream := direct(t, cluster.AdminToken)
	limitRanges := kind{"LimitRange", "v1", "/api/v1", "limitranges"}
	for _, k := range []kind{configMaps, gauges, limitRanges} {
		space := namespace(t)
		for _, name := range []string{"one", "two"} {
			write(t, upstream, http.MethodPost, k.in(space), k.object(name, ""))
		}
		var sockets []*websocket.Conn
		pongs := make(chan string, 8)
		for _, endpoint := range []client.Endpoint{endpoint(t), plane.B.Direct()} {
			socket, answer, err := webSocket(t, endpoint, k.in(space)+"?watch=1&resourceVersion=0", page())
			if err != nil {
				t.Fatalf("%s: %v %v", endpoint.Name, err, answer)
			}
			socket.SetPongHandler(func(text string) error { pongs <- text; return nil })
			if err := socket.WriteControl(websocket.PingMessage, []byte(endpoint.Name), time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			sockets = append(sockets, socket)
		}
		// A pong is noticed while a frame is read, so there are frames until both have come.
		for number := 0; number < 2 || len(pongs) < 2; number++ {
			if number == 20 {
				t.Fatalf("%s: %d of 2 pings were answered", k.plural, len(pongs))
			}
			write(t, upstream, http.MethodPost, k.in(space), k.object(fmt.Sprintf("more-%d", number), ""))
			wanted := 1
			if number == 0 {
				wanted = 3
			}
			var seen []string
			for i, socket := range sockets {
				read, err := readFrames(t, socket, wanted)
				if err != nil {
					t.Fatalf("%s, socket %d: %v after %q", k.plural, i, err, read)
				}
				seen = append(seen, strings.Join(read, "\n"))
			}
			if seen[0] != seen[1] || !strings.Contains(seen[0], fmt.Sprintf(`"name":"more-%d"`, number)) {
				t.Fatalf("%s: through weir:\n%s\nat upstream:\n%s", k.plural, seen[0], seen[1])
			}
		}
	}
}

// TestUG01_ErrorsOfWatchesOverWebSocket asks for what is refused before the upgrade.
func TestUG01_ErrorsOfWatchesOverWebSocket(t *testing.T) {
	t.Parallel()
	path := configMaps.in("lock") + "?watch=1&resourceVersion=0"
	stranger, noOrigin := page(), page()
	stranger.Set("Authorization", "Bearer wrong")
	noOrigin.Del("Origin")
	nobody := page()
	nobody.Set("Authorization", "Bearer "+cluster.BobToken)
	for what, header := range map[string]http.Header{"a wrong token": stranger, "no origin": noOrigin, "no right": nobody, "no revision": page()} {
		path := path
		if what == "no revision" {
			path = configMaps.in("lock") + "?watch=1&resourceVersion=abc"
		}
		var codes [2]int
		for i, endpoint := range []client.Endpoint{endpoint(t), plane.B.Direct()} {
			_, answer, err := webSocket(t, endpoint, path, header)
			if !errors.Is(err, websocket.ErrBadHandshake) {
				t.Fatalf("%s, %s: %v", endpoint.Name, what, err)
			}
			codes[i] = answer.StatusCode
		}
		if codes[0] != codes[1] || codes[0] < 400 {
			t.Errorf("%s: weir answers %d, upstream %d", what, codes[0], codes[1])
		}
	}
}

// TestAU15_TokensAmongTheProtocols gives the token as pages have to: it is taken, is not said back, and is in no log of weir's.
func TestAU15_TokensAmongTheProtocols(t *testing.T) {
	t.Parallel()
	bearer := func(token string) string {
		return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	const other = "v4.channel.k8s.io"
	path := configMaps.in("lock") + "?watch=1&resourceVersion=0"
	header := http.Header{"Origin": {"https://weir.test"}}
	for what, protocols := range map[string][]string{
		"a token and another":   {bearer(cluster.AdminToken), other},
		"another and a token":   {other, bearer(cluster.AdminToken)},
		"nothing but a token":   {bearer(cluster.AdminToken)},
		"two tokens":            {bearer(cluster.AdminToken), bearer(cluster.AdminToken), other},
		"no token":              {"base64url.bearer.authorization.k8s.io.***", other},
		"a wrong token":         {bearer("wrong"), other},
		"one without the right": {bearer(cluster.BobToken), other},
	} {
		var said [2]string
		for i, endpoint := range []client.Endpoint{endpoint(t), plane.B.Direct()} {
			socket, answer, err := webSocket(t, endpoint, path, header, protocols...)
			if answer == nil {
				t.Fatalf("%s, %s: %v", endpoint.Name, what, err)
			}
			said[i] = fmt.Sprintf("%d %q", answer.StatusCode, answer.Header.Values("Sec-WebSocket-Protocol"))
			if strings.Contains(fmt.Sprint(answer.Header), "base64url.bearer") {
				t.Errorf("%s, %s: the token is said back: %v", endpoint.Name, what, answer.Header)
			}
			if err != nil {
				continue
			}
			if _, err := readFrames(t, socket, 1); err != nil {
				t.Errorf("%s, %s: no event: %v", endpoint.Name, what, err)
			}
		}
		if said[0] != said[1] {
			t.Errorf("%s: weir answers %s, upstream %s", what, said[0], said[1])
		}
	}
	if process := plane.Weir.Process(); process != nil {
		log, err := os.ReadFile(process.Log)
		if err != nil || strings.Contains(string(log), bearer(cluster.AdminToken)) {
			t.Errorf("weir's log has a token (%v)", err)
		}
	}
}
