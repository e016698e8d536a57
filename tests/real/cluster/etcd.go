package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Etcd is the running etcd.
func (c *Cluster) Etcd() *Process { return c.etcd }

func (c *Cluster) startEtcd(ctx context.Context) error {
	var err error
	for range 3 {
		if err = c.startEtcdOnce(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// startEtcdOnce keeps etcd's address over restarts where it can: the apiservers know only one.
func (c *Cluster) startEtcdOnce(ctx context.Context) error {
	if c.etcdURL == "" {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", port)
	}
	process, err := start(command{name: "etcd", binary: c.binary("etcd"), dir: c.Dir, args: []string{
		"--data-dir", c.file("etcd.data"),
		"--listen-client-urls", c.etcdURL, "--advertise-client-urls", c.etcdURL,
		"--listen-peer-urls", "http://127.0.0.1:0",
		"--unsafe-no-fsync", "--log-level", "error",
	}})
	if err != nil {
		return err
	}
	c.etcd = process
	if err := c.awaitEtcd(ctx); err != nil {
		process.Kill()
		c.etcdURL = ""
		return fmt.Errorf("etcd: %w\n%s", err, process.Tail())
	}
	return nil
}

func (c *Cluster) awaitEtcd(ctx context.Context) error {
	return poll(ctx, startLimit, func() error {
		select {
		case <-c.etcd.Done():
			return stop{errors.New("ended while it started")}
		default:
		}
		response, err := http.Get(c.etcdURL + "/health")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("/health: %d", response.StatusCode)
		}
		return nil
	})
}

// etcdGrace is how long etcd may take to end by itself.
const etcdGrace = 10 * time.Second

// saveData copies etcd's data while etcd stands still. The apiservers wait for it and notice nothing else.
func (c *Cluster) saveData(ctx context.Context) error {
	c.etcd.End(etcdGrace)
	if err := os.CopyFS(c.file("etcd.saved"), os.DirFS(c.file("etcd.data"))); err != nil {
		return err
	}
	return c.startEtcd(ctx)
}

// Restore is the disaster: everything stops, the copy of Options.Backup takes the place of etcd's data, everything starts.
// Each revision since the copy is forgotten, and will be given again to other changes.
func (c *Cluster) Restore(ctx context.Context) error {
	for _, instance := range c.Instances {
		instance.process.Kill()
	}
	c.etcd.End(etcdGrace)
	if err := os.RemoveAll(c.file("etcd.data")); err != nil {
		return err
	}
	if err := os.CopyFS(c.file("etcd.data"), os.DirFS(c.file("etcd.saved"))); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	return c.startInstances(ctx, c.Instances)
}
