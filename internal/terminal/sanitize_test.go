package terminal

import (
	"errors"
	"strings"
	"testing"
)

func TestForeignTextCanNotSteerATerminal(t *testing.T) {
	if got := OneLine("a\x1b[2Jb\r\nc\td\u009b1m"); got != `a\u001b[2Jb c d\u009b1m` {
		t.Errorf("got %q", got)
	}
	if got := SanitizeText("one\ntwo\x07\x1b"); got != "one\ntwo"+`\u0007\u001b` {
		t.Errorf("got %q", got)
	}
}

func TestLogsAreWrittenWholeAndHarmless(t *testing.T) {
	var out strings.Builder
	logs := SanitizingWriter{&out}
	for _, line := range []string{"plain\n", "evil \u009b2J\u202e\n"} {
		if n, err := logs.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%q: %d bytes, %v", line, n, err)
		}
	}
	if want := "plain\nevil " + `\u009b2J\u202e` + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if _, err := (SanitizingWriter{failingWriter{}}).Write([]byte("\x7f")); err == nil {
		t.Error("a disk without room is no error")
	}
}

// failingWriter is a disk without room.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
