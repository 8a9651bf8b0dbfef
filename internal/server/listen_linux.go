package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged sets TCP_USER_TIMEOUT. The kernel then closes a connection if its peer does not acknowledge sent bytes
// within 45 s. Keepalive does not detect such a peer, because the kernel sends no probes while bytes are unacknowledged. Without
// the option, the kernel retransmits for 15 minutes. Accepted connections inherit the option from the listener.
func limitUnacknowledged(_, _ string, conn syscall.RawConn) error {
	limit := int((keepaliveIdle + keepaliveTimeout).Milliseconds())
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, limit)
	})
	return errors.Join(err, failed)
}
