package main

import (
	"os"
	"runtime"
	"time"

	"weir.dev/tests/real/cluster"
)

// spent is the processor time of each party since it began, or between two moments.
type spent struct {
	load, weir, apiservers, etcd time.Duration
}

// spentSoFar reads the processor time of all processes; that of the load is this process's own.
func (p *plane) spentSoFar() (spent, error) {
	var s spent
	var err error
	if s.load, err = cluster.ProcessorTime(os.Getpid()); err != nil {
		return s, err
	}
	if s.weir, err = cluster.ProcessorTime(p.weir.Process().PID()); err != nil {
		return s, err
	}
	for _, instance := range p.Instances {
		used, err := cluster.ProcessorTime(instance.Process().PID())
		if err != nil {
			return s, err
		}
		s.apiservers += used
	}
	s.etcd, err = cluster.ProcessorTime(p.Etcd().PID())
	return s, err
}

func (s spent) minus(o spent) spent {
	return spent{s.load - o.load, s.weir - o.weir, s.apiservers - o.apiservers, s.etcd - o.etcd}
}

func (s spent) plus(o spent) spent {
	return spent{s.load + o.load, s.weir + o.weir, s.apiservers + o.apiservers, s.etcd + o.etcd}
}

// share is the part of all processors that was used over a time.
func share(used, over time.Duration) float64 {
	return float64(used) / float64(over) / float64(runtime.NumCPU())
}
