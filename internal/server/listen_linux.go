package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged limits the time in which the peer of a connection must acknowledge bytes. While bytes are unacknowledged,
// keepalive sends no probes, and by default the kernel retransmits for 15 minutes. Accepted connections inherit the option.
func limitUnacknowledged(_, _ string, conn syscall.RawConn) error {
	limit := int((keepaliveIdle + keepaliveTimeout).Milliseconds())
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, limit)
	})
	return errors.Join(err, failed)
}
