//go:build unix

package main

import "syscall"

// cpuUsed gives the nanoseconds of CPU that this process has used.
func cpuUsed() (int64, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano(), err
}
