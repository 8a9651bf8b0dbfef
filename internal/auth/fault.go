package auth

import (
	"fmt"
	"strings"
)

// Fault is something in a callers file that can't be meant. It never repeats what stands in the file: a token
// may stand there by mistake.
type Fault struct {
	Line int
	Text string
}

func (f Fault) String() string { return fmt.Sprintf("line %d: %s", f.Line, f.Text) }

// Faults are all faults of a callers file, in the order of its lines.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for n, fault := range f {
		lines[n] = fault.String()
	}
	return strings.Join(lines, "; ")
}
