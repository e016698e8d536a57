package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics are the values of one process at one time, by the whole name of the series with its labels.
type Metrics map[string]float64

// Sum adds up all series of a name, whatever their labels.
func (m Metrics) Sum(name string) float64 {
	sum := 0.0
	for series, value := range m {
		if bare, _, _ := strings.Cut(series, "{"); bare == name {
			sum += value
		}
	}
	return sum
}

// Has says whether there is any series of a name.
func (m Metrics) Has(name string) bool {
	for series := range m {
		if bare, _, _ := strings.Cut(series, "{"); bare == name {
			return true
		}
	}
	return false
}

// parseMetrics reads the text format; time stamps and exemplars are dropped.
func parseMetrics(text io.Reader) (Metrics, error) {
	m := Metrics{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " # ") // an exemplar follows
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndex(line, "}") + 1
		if end == 0 {
			end = strings.IndexByte(line, ' ')
		}
		if end <= 0 {
			return nil, fmt.Errorf("unreadable metric %q", line)
		}
		fields := strings.Fields(line[end:])
		if len(fields) == 0 {
			return nil, fmt.Errorf("metric without a value %q", line)
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %q: %w", line, err)
		}
		m[line[:end]] = value
	}
	return m, lines.Err()
}

// readMetrics asks an admin endpoint for what its process counts.
func readMetrics(ctx context.Context, admin string) (Metrics, error) {
	status, body, err := ask(ctx, admin, "/metrics")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("/metrics: %d", status)
	}
	return parseMetrics(bytes.NewReader(body))
}

// adminLimit bounds one question at an admin endpoint.
const adminLimit = 2 * time.Second

var adminClient = &http.Client{Timeout: adminLimit, Transport: &http.Transport{DisableKeepAlives: true}}

// ask reads a path of an admin endpoint.
func ask(ctx context.Context, admin, path string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := adminClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
