package catalog

import (
	"strings"
	"testing"
)

func TestEveryKindAndStateHasAName(t *testing.T) {
	for kind := KindInvalidInput; kind <= KindContentChanged; kind++ {
		if name := kind.String(); name == "" || strings.HasPrefix(name, "kind(") {
			t.Errorf("kind %d is called %q", kind, name)
		}
	}
	for state := StateQueued; state <= StateUnrecognized; state++ {
		if name := state.String(); name == "" || strings.HasPrefix(name, "state(") {
			t.Errorf("state %d is called %q", state, name)
		}
	}
	if Kind(0).String() != "kind(0)" || State(99).String() != "state(99)" || KindOf(nil) != 0 {
		t.Error("what is no kind or state has a name")
	}
}
