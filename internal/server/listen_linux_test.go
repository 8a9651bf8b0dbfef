package server

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAcceptedConnectionHasTCPUserTimeout(t *testing.T) {
	listener, err := bind("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var limit int
	var failed error
	err = raw.Control(func(fd uintptr) { limit, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if err != nil || failed != nil || limit != 45_000 {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, want 45000 ms (errors: %v, %v)", limit, err, failed)
	}
}
