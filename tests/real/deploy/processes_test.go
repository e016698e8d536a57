package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"weir.dev/tests/real/audit"
	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// arguments are those of the manifest but for what cannot be the same here: addresses, files, the way to the apiserver. The
// name in DNS becomes the list of what it would resolve to, where each node is given with its shard.
func (p *pod) arguments(t *testing.T, kubeconfig string, nodes []string) []string {
	t.Helper()
	table := map[string][]string{
		"--listen=0.0.0.0:7443":                 {"--listen=" + p.at("peer")},
		"--advertise=$(POD_IP):7443":            {"--advertise=" + p.at("peer")},
		"--admin=0.0.0.0:9090":                  {"--admin=" + p.at("admin")},
		"--nodes-dns=weir-shards.weir.svc:7443": nodes,
		"--shards=4":                            nil, // said by each of the nodes
		"--peer-ca=/etc/weir/peer/ca.crt":       {"--peer-ca=" + filepath.Join(p.dir, "ca.crt")},
		"--peer-cert=/etc/weir/peer/tls.crt":    {"--peer-cert=" + filepath.Join(p.dir, "tls.crt")},
		"--peer-key=/etc/weir/peer/tls.key":     {"--peer-key=" + filepath.Join(p.dir, "tls.key")},
		"--in-cluster":                          {"--kubeconfig=" + kubeconfig},
	}
	args, err := substitute(p.container.Args, table)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	kept := []string{"shard", "--shard=" + p.place}
	if !slices.Equal(args[:2], kept) || len(p.container.Args) != len(kept)+len(table) {
		t.Fatalf("%s: the manifest has other arguments than are known here: %q", p.name, p.container.Args)
	}
	return args
}

// startPods starts a pod for each replica of each shard and waits until their probes succeed.
func startPods(t *testing.T, p *plane, m *manifests) []*pod {
	t.Helper()
	kubeconfig, err := p.WriteKubeconfig("shards", p.B.Direct(), accountToken(t, p))
	if err != nil {
		t.Fatal(err)
	}
	pods := newPods(t, m)
	for _, pod := range pods {
		set := m.sets[slices.Index(places(m), pod.place)]
		pod.mount(t, secret(t, p, set.Spec.Template.Spec.Volumes[0].Secret.SecretName))
		pod.start(t, pod.arguments(t, kubeconfig, nodeFlags(pods)))
	}
	for _, pod := range pods {
		pod.await(t, "start", func() error { return pod.probe(pod.container.StartupProbe) })
		pod.await(t, "readiness", func() error { return pod.probe(pod.container.ReadinessProbe) })
	}
	return pods
}

func places(m *manifests) []string {
	all := make([]string, len(m.sets))
	for i := range m.sets {
		all[i], _ = flag(m.sets[i].Spec.Template.Spec.Containers[0], "shard")
	}
	return all
}

func nodeFlags(pods []*pod) []string {
	var flags []string
	for _, pod := range pods {
		flags = append(flags, fmt.Sprintf("--node=%s=%s", pod.place, pod.at("peer")))
	}
	return flags
}

// One test for what follows from another on the same processes: they start, answer, and end.
func TestShardsRunWithTheArgumentsOfTheManifests(t *testing.T) {
	m, p := theManifests(t), reached(t, installed)
	pods := startPods(t, p, m)
	for _, pod := range pods {
		if err := pod.probe(pod.container.LivenessProbe); err != nil {
			t.Errorf("%s: liveness: %v", pod.name, err)
		}
		if err := pod.ask("admin", "/metrics", judgeMetrics); err != nil {
			t.Errorf("%s: /metrics: %v", pod.name, err)
		}
		ready, admin := pod.line(t, "ready: "), pod.line(t, "admin: ")
		if ready != pod.at("peer") || admin != "http://"+pod.at("admin") {
			t.Errorf("%s says that it is at %s and %s", pod.name, ready, admin)
		}
	}
	proxy := startProxy(t, p, pods)
	defer proxy.Close()
	awaitMirrored(t, p, proxy)
	judgeRights(t, p)
	judgeUnmirrored(t, proxy)

	// The second replica of each shard goes; the first ones answer as before.
	var group sync.WaitGroup
	stay := []*pod{}
	for number, pod := range pods {
		if number%2 == 0 {
			stay = append(stay, pod)
		} else {
			group.Go(func() { pod.end(t, m, p.certs()) })
		}
	}
	group.Wait()
	awaitMirrored(t, p, proxy)
	for _, pod := range stay {
		group.Go(func() { pod.end(t, m, p.certs()) })
	}
	group.Wait()

	// Without any replica there is no short answer, and no flood for upstream either; what isn't mirrored goes on.
	for _, path := range mirrored {
		if answer := proxy.Must(t, client.Request{Path: path}); answer.Status != http.StatusServiceUnavailable {
			t.Errorf("%s without shards: %d\n%s", path, answer.Status, client.Excerpt(answer.Body))
		}
	}
	judgeUnmirrored(t, proxy)
}

// Without a list of nodes: as close to the manifest as one machine allows. All interfaces are listened on, and the name is
// resolved, to this node alone.
func TestANodeIsFoundByName(t *testing.T) {
	m, p := theManifests(t), reached(t, installed)
	kubeconfig, err := p.WriteKubeconfig("shard", p.B.Direct(), accountToken(t, p))
	if err != nil {
		t.Fatal(err)
	}
	set := m.sets[0]
	lone := newPod(t, &set, set.Name+"-0")
	lone.address = "0.0.0.0"
	lone.ports = freePorts(t, lone)
	lone.address = "127.0.0.1"
	lone.mount(t, secret(t, p, set.Spec.Template.Spec.Volumes[0].Secret.SecretName))
	peer, admin := lone.ports[numbered(lone.container, "peer")], lone.ports[numbered(lone.container, "admin")]
	args := lone.arguments(t, kubeconfig, []string{fmt.Sprintf("--nodes-dns=localhost:%d", peer), "--shards=4"})
	args, err = substitute(args, map[string][]string{
		"--listen=" + lone.at("peer"): {fmt.Sprintf("--listen=0.0.0.0:%d", peer)},
		"--admin=" + lone.at("admin"): {fmt.Sprintf("--admin=0.0.0.0:%d", admin)},
	})
	if err != nil {
		t.Fatal(err)
	}
	lone.start(t, args)
	lone.await(t, "readiness", func() error { return lone.probe(lone.container.ReadinessProbe) })
	lone.end(t, m, p.certs())
}

// judgeMetrics wants the text format, with something about weir in it.
func judgeMetrics(response *http.Response, body []byte) error {
	kind := response.Header.Get("Content-Type")
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "application/openmetrics-text") && !strings.HasPrefix(kind, "text/plain") {
		return fmt.Errorf("%d %s", response.StatusCode, kind)
	}
	if !strings.Contains(string(body), "# TYPE weir_") {
		return fmt.Errorf("nothing about weir:\n%s", client.Excerpt(body))
	}
	return nil
}

// endLimit is the time that the manifests give a pod to end.
func endLimit(m *manifests) time.Duration {
	return time.Duration(*m.sets[0].Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
}

// end asks the process to end as a kubelet does. It says that it isn't ready while a peer is still connected, and once the
// peer has gone it ends with 0. Without a peer that stays it may be gone before it could be asked.
func (p *pod) end(t *testing.T, m *manifests, certs string) {
	peer, err := p.connect(certs)
	if err != nil {
		t.Errorf("%s: %v", p.name, err)
		return
	}
	defer peer.Close()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("%s: %v", p.name, err)
		return
	}
	killed := time.After(endLimit(m))
	for err := error(nil); err == nil; err = p.probe(p.container.ReadinessProbe) {
		select {
		case <-killed:
			t.Errorf("%s is ready though it ends\n%s", p.name, p.tail())
			return
		default:
		}
	}
	if err := p.probe(p.container.ReadinessProbe); err != statusError(http.StatusServiceUnavailable) {
		t.Errorf("%s: readiness: %v", p.name, err)
	}
	if err := p.probe(p.container.LivenessProbe); err != nil {
		t.Errorf("%s: liveness while it ends: %v", p.name, err)
	}
	peer.Close()
	select {
	case <-p.done:
		if code := p.command.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with %d\n%s", p.name, code, p.tail())
		}
	case <-killed:
		t.Errorf("%s would be killed now\n%s", p.name, p.tail())
	}
}

// connect is a proxy that greets the node and then says nothing more: it doesn't even confirm that it was told to go.
func (p *pod) connect(certs string) (net.Conn, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(certs, "proxy.crt"), filepath.Join(certs, "proxy.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(certs, "ca.crt"))
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	peer, err := tls.Dial("tcp", p.at("peer"), &tls.Config{
		RootCAs: trusted, Certificates: []tls.Certificate{own}, ServerName: "shard.weir.internal", NextProtos: []string{"h2"},
	})
	if err != nil {
		return nil, err
	}
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // a frame of none
	if _, err := io.WriteString(peer, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings); err != nil {
		return nil, err
	}
	const confirmed = 4 // the type of a frame, and then its flags: the node has read our settings
	header := make([]byte, 9)
	for {
		if _, err := io.ReadFull(peer, header); err != nil {
			return nil, err
		}
		if header[3] == confirmed && header[4] == 1 {
			return peer, nil
		}
		length := int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2])
		if _, err := io.CopyN(io.Discard, peer, length); err != nil {
			return nil, err
		}
	}
}

// mirrored is what the proxy has the shards mirror, and where it is: of the core group, of a built-in group, and of one whose
// name a custom resource could have.
var mirrored = map[string]string{
	"configmaps":                        "/api/v1/configmaps",
	"deployments.apps":                  "/apis/apps/v1/deployments",
	"priorityclasses.scheduling.k8s.io": "/apis/scheduling.k8s.io/v1/priorityclasses",
}

// startProxy starts the proxy of deploy/README.md in front of the pods.
func startProxy(t *testing.T, p *plane, pods []*pod) *client.Client {
	t.Helper()
	text := find(t, "deploy/README.md", `^    weir (proxy (?:.*\\\n)*.*)$`)
	certs := p.certs()
	written := filepath.Join(t.TempDir(), "weir.kubeconfig")
	args, err := substitute(strings.Fields(strings.ReplaceAll(text, "\\\n", " ")), map[string][]string{
		"--nodes-dns=weir-shards.weir.svc:7443": nodeFlags(pods),
		"--shards=4":                            nil,
		"--peer-ca=certs/ca.crt":                {"--peer-ca=" + filepath.Join(certs, "ca.crt")},
		"--peer-cert=certs/proxy.crt":           {"--peer-cert=" + filepath.Join(certs, "proxy.crt")},
		"--peer-key=certs/proxy.key":            {"--peer-key=" + filepath.Join(certs, "proxy.key")},
		"--kubeconfig=config":                   {"--kubeconfig=" + filepath.Join(p.root, "config")},
		"--listen=127.0.0.1:6443":               {"--listen=127.0.0.1:0"},
		"--write-kubeconfig=weir.kubeconfig":    {"--write-kubeconfig=" + written},
	})
	if err != nil {
		t.Fatal(err)
	}
	process := &pod{name: "proxy", dir: t.TempDir()}
	process.start(t, append(args, "--mirror="+strings.Join(slices.Sorted(maps.Keys(mirrored)), ",")))
	process.line(t, "ready: ")
	return clientOf(t, written)
}

// clientOf is a client of the weir that wrote a kubeconfig.
func clientOf(t *testing.T, written string) *client.Client {
	t.Helper()
	config, err := clientcmd.LoadFromFile(written)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range config.Clusters {
		endpoint := client.Endpoint{Name: "proxy", URL: found.Server, CA: found.CertificateAuthorityData}
		return client.New(endpoint, cluster.AdminToken, "weir-deploy/client")
	}
	t.Fatal("the written kubeconfig names no cluster")
	return nil
}

// awaitMirrored asks the proxy until the shards answer, and compares with upstream: so their token lets them read, and their
// certificates let the proxy ask.
func awaitMirrored(t *testing.T, p *plane, proxy *client.Client) {
	t.Helper()
	upstream := p.Upstream(cluster.AdminToken, "weir-deploy/truth")
	defer upstream.Close()
	for _, path := range mirrored {
		const limit = 20 * time.Second
		deadline := time.Now().Add(limit)
		answer := proxy.Must(t, client.Request{Path: path})
		for !client.FromMirror(answer.Header) && time.Now().Before(deadline) {
			answer = proxy.Must(t, client.Request{Path: path})
		}
		by := answer.Header.Get(client.AnsweredBy)
		if answer.Status != http.StatusOK || !client.FromMirror(answer.Header) {
			t.Fatalf("%s: %d, by %q\n%s", path, answer.Status, by, client.Excerpt(answer.Body))
		}
		if got, wanted := names(t, answer), names(t, upstream.Get(t, path)); !slices.Equal(got, wanted) || len(wanted) == 0 {
			t.Errorf("%s: %v, not %v", path, got, wanted)
		}
	}
}

// judgeRights wants that the shards read upstream with their own token, and that nothing was refused to it: weir goes on
// without some answers, so a right that is missing need not show. The other way round, each right was used.
func judgeRights(t *testing.T, p *plane) {
	t.Helper()
	log := audit.NewLog(p.B)
	account := theManifests(t).accounts[0]
	entries, err := log.Select(audit.Filter{User: fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name)})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, entry := range entries {
		if code := entry.ResponseStatus.Code; code == http.StatusForbidden || code == http.StatusUnauthorized {
			t.Errorf("upstream refused %s with %d", entry.URI, code)
		}
		used[entry.Verb+" "+entry.ObjectRef.Resource] = true
	}
	for _, right := range []string{
		"get namespaces", "get apiservices", "get customresourcedefinitions",
		"list configmaps", "watch configmaps", "list deployments", "watch deployments",
	} {
		if !used[right] {
			t.Errorf("nobody used the right to %s: %v", right, slices.Sorted(maps.Keys(used)))
		}
	}
}

// judgeUnmirrored reads what the shards have no right to: it is passed through, also after a first watch, with which a kind's
// mirror would start.
func judgeUnmirrored(t *testing.T, proxy *client.Client) {
	t.Helper()
	for _, query := range []string{"?watch=1&timeoutSeconds=1", ""} {
		answer := proxy.Get(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles"+query)
		if by := answer.Header.Get(client.AnsweredBy); !strings.HasPrefix(by, "passed; ") {
			t.Errorf("clusterroles%s: answered by %q", query, by)
		}
	}
}

func names(t *testing.T, answer client.Answer) []string {
	t.Helper()
	var list struct{ Items []client.Object }
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		t.Fatalf("%v\n%s", err, client.Excerpt(answer.Body))
	}
	var names []string
	for _, object := range list.Items {
		names = append(names, object.Key())
	}
	return names
}
