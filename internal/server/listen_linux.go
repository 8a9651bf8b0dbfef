package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged ends a connection whose peer acknowledges no bytes. Keepalive sends no probes while bytes are under
// way, and the kernel resends those for a quarter of an hour. Accepted connections inherit the option.
func limitUnacknowledged(_, _ string, conn syscall.RawConn) error {
	limit := int((keepaliveIdle + keepaliveTimeout).Milliseconds())
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, limit)
	})
	return errors.Join(err, failed)
}
