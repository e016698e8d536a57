package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
)

// A process that comes back has to find its port free. The kernel hands ports of its own range to outgoing connections,
// so ports that are kept over a restart are taken from below it.
const (
	lowestKept  = 20000
	highestKept = 32000
)

var keptPorts struct {
	sync.Mutex
	given map[int]bool
}

// keptPort is a free port that no outgoing connection will be given, and that nobody else of this process was given.
func keptPort() (int, error) {
	low, high, err := ephemeralPorts()
	if err != nil {
		return 0, err
	}
	keptPorts.Lock()
	defer keptPorts.Unlock()
	if keptPorts.given == nil {
		keptPorts.given = map[int]bool{}
	}
	const attempts = 1000
	for range attempts {
		port := lowestKept + rand.IntN(highestKept-lowestKept)
		if port >= low && port <= high || keptPorts.given[port] {
			continue
		}
		listener, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		listener.Close()
		keptPorts.given[port] = true
		return port, nil
	}
	return 0, errors.New("no free port outside of the kernel's own range")
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// ephemeralPorts are the first and the last port that outgoing connections get.
func ephemeralPorts() (low, high int, err error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(string(text), &low, &high)
	return low, high, err
}
