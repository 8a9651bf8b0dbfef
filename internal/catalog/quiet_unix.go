//go:build unix

package catalog

import (
	"errors"
	"net"
	"syscall"
)

// quietKnown says that quiet can tell.
const quietKnown = true

// quiet reports whether nothing has come on a connection that nobody reads, neither bytes nor
// its end. A connection without a descriptor is in memory, and is taken for quiet.
func quiet(conn net.Conn) bool {
	described, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := described.SyscallConn()
	if err != nil {
		return false
	}
	nothing := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		nothing = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && nothing
}
