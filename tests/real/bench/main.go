// Command bench measures answers that have to be fresh: lists without resourceVersion, and the WatchLists of kubelets. It
// starts etcd, two apiservers and one weir, all real, and asks weir and the apiservers themselves in turns of two seconds, so
// that whatever else the machine does is done to both. It prints Markdown.
//
// A bound in time that is broken is called missed, for it tells of the machine too; one in counts ends the program with an error.
// The load, weir and upstream share the processors, so at high rates all three wait for one another: the seconds of processor
// time of each are part of the result.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// plane is what is measured, and by whom.
type plane struct {
	*cluster.Cluster
	settings settings
	stock    stock
	near     []string // the config maps in the namespaces of kubelets
	weir     *cluster.Weir
}

// errBroken ends a run in which a bound in counts was broken.
var errBroken = errors.New("a bound in counts is broken")

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	began := time.Now()
	p, err := start(ctx, s)
	if err != nil {
		return err
	}
	defer p.Close()
	p.introduce(time.Since(began))
	broken, err := measureLists(ctx, p)
	if err != nil {
		return err
	}
	more, err := measureKubelets(ctx, p)
	if err != nil {
		return err
	}
	fmt.Printf("\nLoad at the end: %s. All of it took %s.\n", loadAverage(), time.Since(began).Round(time.Second))
	return errors.Join(append(broken, more...)...)
}

// introduce says what was measured where.
func (p *plane) introduce(ready time.Duration) {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.weir.Process().PID()))
	if err != nil {
		program = "unknown"
	}
	fmt.Printf("%s, %d processors, load %s; weir is %s. Ready after %s.\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		runtime.NumCPU(), loadAverage(), program, ready.Round(time.Second))
}

// start brings up the control plane, fills it, and then starts weir, which so begins with a list and an empty window.
func start(ctx context.Context, s settings) (*plane, error) {
	c, err := cluster.Start(ctx, cluster.Options{Bare: true})
	if err != nil {
		return nil, err
	}
	p := &plane{Cluster: c, settings: s}
	if err := p.fill(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return p, nil
}

func (p *plane) fill(ctx context.Context) error {
	var err error
	if p.stock, err = seed(ctx, p.Cluster, p.settings.objects); err != nil {
		return err
	}
	if p.near = near(p.stock[configMaps.plural]); len(p.near) == 0 {
		return fmt.Errorf("%d config maps are too few for kubelets", p.settings.objects)
	}
	var mirrors []string
	for _, k := range kinds {
		mirrors = append(mirrors, k.resource)
	}
	p.weir, err = p.StartMeasured(ctx, "weir", mirrors)
	return err
}

// Close ends weir and then what it reads from.
func (p *plane) Close() {
	if p.weir != nil {
		p.weir.Kill()
	}
	p.Cluster.Close()
}

// endpoints are those of the apiservers, or weir's.
func (p *plane) endpoints(atWeir bool) []client.Endpoint {
	if atWeir {
		return p.weir.Endpoints
	}
	var all []client.Endpoint
	for _, instance := range p.Instances[:min(p.settings.servers, len(p.Instances))] {
		all = append(all, instance.Direct())
	}
	return all
}

// clients are callers with a connection each, spread over the endpoints.
func (p *plane) clients(atWeir bool, agent string, count int) pool {
	endpoints := p.endpoints(atWeir)
	made := make(pool, count)
	for i := range made {
		made[i] = client.New(endpoints[i%len(endpoints)], cluster.ReaderToken, agent)
	}
	return made
}

// pool is several clients that take turns.
type pool []*client.Client

func (p pool) turn(n int) *client.Client { return p[n%len(p)] }

// Close drops the connections.
func (p pool) Close() {
	for _, c := range p {
		c.Close()
	}
}

// loadAverage is the kernel's own figure, over one, five and fifteen minutes.
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil || len(raw) < len("0.00 0.00 0.00") {
		return "unknown"
	}
	var one, five, fifteen string
	if _, err := fmt.Sscan(string(raw), &one, &five, &fifteen); err != nil {
		return "unknown"
	}
	return one + " " + five + " " + fifteen
}

// pause waits, unless the run is ended.
func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}
