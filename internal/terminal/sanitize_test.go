package terminal

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestControlCharactersAreEscaped(t *testing.T) {
	if got := OneLine("a\x1b[2Jb\r\nc\td\u009b1m"); got != `a\u001b[2Jb c d\u009b1m` {
		t.Errorf("got %q", got)
	}
	if got := SanitizeText("one\ntwo\x07\x1b"); got != "one\ntwo"+`\u0007\u001b` {
		t.Errorf("got %q", got)
	}
}

func TestSanitizingWriterEscapesControlCharacters(t *testing.T) {
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
		t.Error("writing to a full disk returns no error")
	}
}

func TestResultIsSanitizedOnlyOnTerminal(t *testing.T) {
	evil := strings.Repeat("é", 4095) + "\r\n\x1b[2J\u202e\ta\xffb\r"
	for _, c := range []struct {
		look Style
		want string
	}{
		{Style{}, evil},
		{Style{Terminal: true}, strings.Repeat("é", 4095) + "\n" + `\u001b[2J\u202e` + "\ta\uFFFDb" + `\u000d`},
	} {
		console, screen := onTerminal(c.look)
		if err := console.Copy(iotest.OneByteReader(strings.NewReader(evil))); err != nil || screen.String() != c.want {
			t.Errorf("%+v: %v, got %q", c.look, err, screen.String())
		}
	}
	broken := errors.New("broken")
	console, _ := onTerminal(Style{Terminal: true})
	if err := console.Copy(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("copying an unreadable result returns %v", err)
	}
	console.out = failingWriter{}
	if err := console.Copy(strings.NewReader("text")); err == nil {
		t.Error("writing to a full disk returns no error")
	}
}

func TestLongLineIsCopiedWithoutBuffering(t *testing.T) {
	console, screen := onTerminal(Style{Terminal: true})
	read, line := 0, strings.NewReader(strings.Repeat("a", 1<<20))
	counted := io.TeeReader(line, writerFunc(func(p []byte) (int, error) {
		if read += len(p); read-screen.Len() > 64<<10 {
			return 0, errors.New("it is kept")
		}
		return len(p), nil
	}))
	if err := console.Copy(counted); err != nil || screen.Len() != 1<<20 {
		t.Errorf("after %d bytes: %v", screen.Len(), err)
	}
}

type writerFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// failingWriter is a writer that fails as if the disk were full.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
