package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged ends a connection whose bytes nobody acknowledges. Keepalive
// alone does not: it rests while bytes are under way, and the kernel sends those
// again for a quarter of an hour. Accepted connections inherit it.
func limitUnacknowledged(_, _ string, conn syscall.RawConn) error {
	limit := int((keepaliveIdle + keepaliveTimeout).Milliseconds())
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, limit)
	})
	if err != nil {
		return err
	}
	return failed
}
