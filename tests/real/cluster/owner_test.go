package cluster

import (
	"net"
	"os"
	"testing"
)

func TestTheOwnerOfAConnectionIsFound(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ours, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if name := owner(accepted, map[string]int{"parent": os.Getppid(), "us": os.Getpid()}); name != "us" {
		t.Errorf("the owner is %q, want us", name)
	}
	if name := owner(accepted, map[string]int{"parent": os.Getppid()}); name != "" {
		t.Errorf("the owner is %q, but it was not named", name)
	}
}
