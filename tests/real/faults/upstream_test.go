package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir.dev/tests/real/cluster"
	"weir.dev/tests/real/wait"
)

// readers are a fleet's connections to one apiserver.
func readers(instance *cluster.Instance) int {
	open := 0
	for _, node := range fleet.Nodes {
		open += instance.Relay.Link(node.Name).Open()
	}
	return open
}

// delayUpstream lets one apiserver lag behind the other, as weir sees it.
func (i *incident) delayUpstream() (string, error) {
	_, instance := i.reading()
	if instance == nil {
		return "", fmt.Errorf("%w: nobody reads", errMissed)
	}
	defer instance.Relay.Delay(0)
	before := harmedReaders(instance)
	instance.Relay.Delay(2 * late)
	wait.Pause(i.ctx, slow)
	return instance.Name, i.seen(func(context.Context) error {
		if harmedReaders(instance) == before {
			return errors.New("not one byte of it was late")
		}
		return nil
	})
}

func harmedReaders(instance *cluster.Instance) int {
	harmed := 0
	for _, node := range fleet.Nodes {
		harmed += instance.Relay.Link(node.Name).Harmed()
	}
	return harmed
}

func (i *incident) cutUpstream() (string, error) {
	_, instance := i.reading()
	if instance == nil {
		return "", fmt.Errorf("%w: nobody reads", errMissed)
	}
	cut := 0
	for _, node := range fleet.Nodes {
		cut += instance.Relay.Link(node.Name).Cut()
	}
	if cut == 0 {
		return instance.Name, fmt.Errorf("%w: no node read from it", errMissed)
	}
	return fmt.Sprintf("%s, %d connections", instance.Name, cut), nil
}

// restartUpstream ends instance A, which the truth is not read from, after nodes have come to read from it.
func (i *incident) restartUpstream() (string, error) {
	if readers(plane.A) == 0 {
		plane.B.Relay.Refuse(true)
		plane.B.Relay.Cut()
		err := i.seen(func(context.Context) error {
			if readers(plane.A) == 0 {
				return errors.New("no node came to a")
			}
			return nil
		})
		plane.B.Relay.Refuse(false)
		if err != nil {
			return "a", err
		}
	}
	open := readers(plane.A)
	return fmt.Sprintf("a, %d connections", open), plane.A.Restart(i.ctx)
}

// compact makes etcd forget everything before its present revision.
func (i *incident) compact() (string, error) {
	const young = 50 // revisions back, which etcd must still have before and no longer after
	now := max(i.load.acknowledged(pods), i.load.acknowledged(gauges))
	if err := plane.Compact(i.ctx, now); err != nil {
		return "", err
	}
	has, err := plane.Has(i.ctx, now-young)
	if err == nil && has {
		err = fmt.Errorf("%w: etcd still has revision %d", errMissed, now-young)
	}
	return fmt.Sprintf("at %d", now), err
}

// settle is how long a fault's healing may take.
const settle = 60 * time.Second
