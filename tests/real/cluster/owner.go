package cluster

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
)

// One relay stands in front of each server, under one address that everybody agrees on (rendezvous hashing is over
// addresses). Who is at the other end of a connection is therefore asked of the kernel: it knows the socket of a local
// port, and the process that has the socket open.

// owner is the one of the processes that has the local end of a loopback connection; "" when none has.
func owner(remote net.Addr, processes map[string]int) string {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return ""
	}
	socket := socketAt(tcp.Port)
	if socket == "" {
		return ""
	}
	for name, pid := range processes {
		if hasOpen(pid, socket) {
			return name
		}
	}
	return ""
}

// socketAt is the kernel's name of the connected socket at a local port of the loopback.
func socketAt(port int) string {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer table.Close()
	const localAddress, state, inode = 1, 3, 9
	const listening = "0A"
	wanted := fmt.Sprintf("0100007F:%04X", port)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > inode && fields[localAddress] == wanted && fields[state] != listening {
			return "socket:[" + fields[inode] + "]"
		}
	}
	return ""
}

func hasOpen(pid int, socket string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	for _, entry := range entries {
		if target, err := os.Readlink(dir + "/" + entry.Name()); err == nil && target == socket {
			return true
		}
	}
	return false
}
