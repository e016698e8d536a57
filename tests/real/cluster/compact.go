package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Compact makes etcd forget every revision before one.
func (c *Cluster) Compact(ctx context.Context, before uint64) error {
	status, answer, err := c.askEtcd(ctx, "/v3/kv/compaction", map[string]any{"revision": fmt.Sprint(before), "physical": true})
	if err == nil && status != http.StatusOK && !strings.Contains(answer, compacted) {
		err = fmt.Errorf("etcd: compaction: %d %s", status, answer)
	}
	return err
}

// compacted is what etcd says of a revision that it has forgotten.
const compacted = "has been compacted"

// Has says whether etcd can still read at a revision.
func (c *Cluster) Has(ctx context.Context, revision uint64) (bool, error) {
	key := []byte("/registry/namespaces/default")
	status, answer, err := c.askEtcd(ctx, "/v3/kv/range", map[string]any{"key": key, "revision": fmt.Sprint(revision)})
	switch {
	case err != nil:
		return false, err
	case status == http.StatusOK:
		return true, nil
	case strings.Contains(answer, compacted):
		return false, nil
	default:
		return false, fmt.Errorf("etcd: range: %d %s", status, answer)
	}
}

// askEtcd uses the JSON form of etcd's own protocol.
func (c *Cluster) askEtcd(ctx context.Context, path string, question any) (int, string, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}
