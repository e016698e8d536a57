package cluster

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"syscall"
)

// One relay stands in front of each server, under one address that everybody agrees on (rendezvous hashing is over
// addresses). Who is at the other end of a connection is therefore asked of the kernel: it knows the socket between two
// ports, and the process that has the socket open. (The table /proc/net/tcp says the same, but all of it is read for each
// question, and a machine that tests network programs has tens of thousands of sockets.)

// owner is the one of the processes that has the far end of a loopback connection; "" when none has.
func owner(connection net.Conn, processes map[string]int) string {
	far, isTCP := connection.RemoteAddr().(*net.TCPAddr)
	near, isToo := connection.LocalAddr().(*net.TCPAddr)
	if !isTCP || !isToo {
		return ""
	}
	inode, err := socketBetween(far.Port, near.Port)
	if err != nil {
		return ""
	}
	socket := fmt.Sprintf("socket:[%d]", inode)
	for name, pid := range processes {
		if hasOpen(pid, socket) {
			return name
		}
	}
	return ""
}

// The form of a question about one socket and of its answer, from linux/inet_diag.h and linux/sock_diag.h.
const (
	sockDiag         = 4  // the netlink family
	sockDiagByFamily = 20 // the message
	questionLength   = 56
	answerInode      = 68
	noCookie         = 0xffffffff
)

// socketBetween asks for the inode of the connected socket from one port of the loopback to another.
func socketBetween(from, to int) (uint32, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, sockDiag)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	message := make([]byte, syscall.NLMSG_HDRLEN+questionLength)
	native := binary.NativeEndian
	native.PutUint32(message, uint32(len(message)))
	native.PutUint16(message[4:], sockDiagByFamily)
	native.PutUint16(message[6:], syscall.NLM_F_REQUEST)
	question := message[syscall.NLMSG_HDRLEN:]
	question[0], question[1] = syscall.AF_INET, syscall.IPPROTO_TCP
	native.PutUint32(question[4:], ^uint32(0)) // in any state
	binary.BigEndian.PutUint16(question[8:], uint16(from))
	binary.BigEndian.PutUint16(question[10:], uint16(to))
	copy(question[12:], net.IPv4(127, 0, 0, 1).To4())
	copy(question[28:], net.IPv4(127, 0, 0, 1).To4())
	native.PutUint32(question[48:], noCookie)
	native.PutUint32(question[52:], noCookie)
	if err := syscall.Sendto(fd, message, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, os.Getpagesize())
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	if n < syscall.NLMSG_HDRLEN+answerInode+4 || native.Uint16(answer[4:]) != sockDiagByFamily {
		return 0, fmt.Errorf("no socket from port %d to port %d", from, to)
	}
	return native.Uint32(answer[syscall.NLMSG_HDRLEN+answerInode:]), nil
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
