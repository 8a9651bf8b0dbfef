//go:build !linux

package content

import "os"

// readCached is known only on Linux; elsewhere each read is one of the disk.
func readCached(*os.File, []byte) int { return 0 }
