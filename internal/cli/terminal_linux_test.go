package cli

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// testTerminal is a pseudoterminal with 80 columns. It records the output.
type testTerminal struct {
	child *os.File // the end of the pseudoterminal to which the program is attached

	mu      sync.Mutex
	written strings.Builder
}

// openTerminal opens a terminal, which is closed at the end of the test.
func openTerminal(t *testing.T) *testTerminal {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &testTerminal{child: child}
	var reading sync.WaitGroup
	reading.Go(func() { term.recordOutput(user) })
	t.Cleanup(func() {
		_ = child.Close() // ends the goroutine that reads the output
		reading.Wait()
		_ = user.Close()
	})
	return term
}

// recordOutput records the terminal's output until the terminal is closed. It reads the output from user,
// the master side of the pseudoterminal.
func (term *testTerminal) recordOutput(user *os.File) {
	buffer := make([]byte, 4096)
	for {
		n, err := user.Read(buffer)
		if err != nil {
			return
		}
		term.mu.Lock()
		term.written.Write(buffer[:n])
		term.mu.Unlock()
	}
}

// runCommand runs a command in the terminal, and returns its exit code.
func (term *testTerminal) runCommand(t *testing.T, env map[string]string, dial dialer, args ...string) int {
	return Run(t.Context(), args, &Program{
		Grammar: grammar(),
		Stdin:   strings.NewReader(""), Stdout: term.child, Stderr: term.child, Dial: dial,
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
}

// awaitText waits until the output contains text, and returns the complete output.
func (term *testTerminal) awaitText(t *testing.T, text string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		term.mu.Lock()
		written := term.written.String()
		term.mu.Unlock()
		if strings.Contains(written, text) {
			return written
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q was not written in\n%s", text, written)
		}
		time.Sleep(10 * time.Millisecond) // polls the output, because the terminal cannot signal new output
	}
}

func TestColorAndProgressLineDependOnTerminal(t *testing.T) {
	dial := orderingServer(func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
		sendState(s, queued)
		sendState(s, failed)
		return nil
	}, nil).serve(t)
	for name, test := range map[string]struct {
		env          map[string]string
		colour, live bool
	}{
		"a color terminal": {map[string]string{"TERM": "xterm"}, true, true},
		"colors disabled":  {map[string]string{"NO_COLOR": "1"}, false, true},
		"a dumb terminal":  {map[string]string{"TERM": "dumb"}, false, false},
	} {
		term := openTerminal(t)
		exit := term.runCommand(t, test.env, dial, "generate", "studio/any", "--watch")
		got := term.awaitText(t, "easel: the render gen_1 failed\r\n")
		colour, live := strings.Contains(got, "\x1b[3"), strings.Contains(got, "queued 0s")
		if exit != ExitGenerationFailed || colour != test.colour || live != test.live {
			t.Errorf("%s: exit %d, color %v, live lines %v in\n%q", name, exit, colour, live, got)
		}
		if live && !strings.Contains(got, "\r\x1b[Jeasel: ") {
			t.Errorf("%s: the live line is not erased before the error: %q", name, got)
		}
	}
}
