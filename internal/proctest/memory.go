package proctest

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Memory returns the current and the peak resident memory of a process, in bytes. It skips the test if the operating system
// does not report them.
func Memory(t testing.TB, pid int) (now, highest int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("operating system does not report the memory of a process: %v", err)
	}
	for name, into := range map[string]*int{"VmRSS": &now, "VmHWM": &highest} {
		kilobytes, err := strconv.Atoi(Find(t, name+`:\s+(\d+) kB`, string(text)))
		if err != nil {
			t.Fatal(err)
		}
		*into = kilobytes << 10
	}
	return now, highest
}
