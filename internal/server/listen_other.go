//go:build !linux

package server

import "syscall"

// limitUnacknowledged does nothing, because the option TCP_USER_TIMEOUT exists only on Linux. The kernel's default timeout
// applies.
func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
