package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// terminal is a real terminal of the system, and what a person would see on it.
type terminal struct {
	user  *os.File // the side of the person
	child *os.File // the side of the program

	mu     sync.Mutex
	screen *screen
	all    strings.Builder // everything that was written
	ended  chan struct{}
}

func openTerminal(t *testing.T, width, height int) *terminal {
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
	term := &terminal{user: user, child: child, screen: newScreen(width, height), ended: make(chan struct{})}
	term.resize(t, width, height)
	go term.read()
	t.Cleanup(func() {
		child.Close()
		<-term.ended
		user.Close()
	})
	return term
}

// read shows what is written, until nobody can write any more.
func (term *terminal) read() {
	defer close(term.ended)
	buffer := make([]byte, 4096)
	for {
		n, err := term.user.Read(buffer)
		if err != nil {
			return
		}
		term.mu.Lock()
		term.screen.write(string(buffer[:n]))
		term.all.Write(buffer[:n])
		term.mu.Unlock()
	}
}

func (term *terminal) resize(t *testing.T, width, height int) {
	t.Helper()
	size := &unix.Winsize{Col: uint16(width), Row: uint16(height)}
	if err := unix.IoctlSetWinsize(int(term.user.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	term.mu.Lock()
	defer term.mu.Unlock()
	term.screen.resize(width)
}

// seen is the screen, without blank lines at its end.
func (term *terminal) seen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

func (term *terminal) written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.all.String()
}

// run runs the command on the terminal. Its exit code comes when it has ended.
func (term *terminal) run(ctx context.Context, env map[string]string, args ...string) <-chan int {
	exit := make(chan int, 1)
	go func() {
		exit <- Run(ctx, args, &Program{
			Grammar: grammar(), Build: thisBuild(),
			Stdin: strings.NewReader(""), Stdout: term.child, Stderr: term.child,
			Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		})
	}()
	return exit
}

// until waits for a screen that a person would wait for.
func (term *terminal) until(t *testing.T, what string, fits func(screen string) bool) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		screen := term.seen()
		if fits(screen) {
			return screen
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s on\n%s", what, screen)
		}
		time.Sleep(10 * time.Millisecond) // a screen tells nobody that it has changed
	}
}

// finished waits for the end, and for the last of what was written.
func (term *terminal) finished(t *testing.T, exit <-chan int, last string) (int, string) {
	t.Helper()
	code := <-exit
	return code, term.until(t, last, func(s string) bool { return strings.Contains(strings.ReplaceAll(s, "\n", ""), last) })
}

func TestSeveralOrdersHaveALineEachOnATerminalAndLeaveNoneBehind(t *testing.T) {
	env := startDev(t)
	env["LANG"] = "C.UTF-8"
	for _, width := range []int{100, 40} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			term := openTerminal(t, width, 24)
			exit := term.run(t.Context(), env, "generate", "studio/landscape", "prompt=sea", "size=64x40", "--count", "3", "--out", t.TempDir()+"/")
			live := term.until(t, "live lines", func(s string) bool { return strings.Contains(s, "of 3 done") && strings.Contains(s, "\n#1 ") })
			for line := range strings.Lines(live) {
				if strings.Count(line, "#") > 1 {
					t.Errorf("two lines run into each other: %q", line)
				}
			}
			code, last := term.finished(t, exit, "3 orders: 3 succeeded")
			if code != ExitOK || strings.Contains(last, "of 3 done") || strings.Contains(last, "⠋") || strings.Contains(last, "ordering") {
				t.Errorf("exit %d, and what is left is\n%s", code, last)
			}
			if strings.Count(last, "gen_") < 3 || strings.Contains(strings.ReplaceAll(last, "\n", ""), "easel:") {
				t.Errorf("the results are not all there:\n%s", last)
			}
		})
	}
}

func TestATerminalThatBecomesNarrowerKeepsTheResults(t *testing.T) {
	env := startDev(t)
	term := openTerminal(t, 100, 30)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	exit := term.run(ctx, env, "generate", "studio/landscape", "prompt=sea", "size=1600x1000", "--count", "4", "--out", t.TempDir()+"/")
	term.until(t, "live lines", func(s string) bool { return strings.Contains(s, "of 4 done") })
	term.resize(t, 30, 30)
	interrupt()
	code, last := term.finished(t, exit, "paid.")
	if code != ExitInterrupted || strings.Contains(last, "of 4 done") {
		t.Errorf("exit %d, and what is left is\n%s", code, last)
	}
	if !strings.Contains(last, "idempotency key") {
		t.Errorf("the first line is gone:\n%s", last)
	}
}

func TestColourAndSignsFollowTheTerminal(t *testing.T) {
	env := startDev(t)
	for _, test := range []struct {
		name            string
		env             map[string]string
		colour, unicode bool
		live            bool
	}{
		{"a usual terminal", map[string]string{"LANG": "C.UTF-8", "TERM": "xterm"}, true, true, true},
		{"no colour", map[string]string{"LANG": "C.UTF-8", "NO_COLOR": "1"}, false, true, true},
		{"no Unicode", map[string]string{"LANG": "C"}, true, false, true},
		{"a locale that is overruled", map[string]string{"LANG": "C.UTF-8", "LC_ALL": "C"}, true, false, true},
		{"a dumb terminal", map[string]string{"LANG": "C.UTF-8", "TERM": "dumb"}, false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := map[string]string{"EASEL_ADDR": env["EASEL_ADDR"], "EASEL_API_KEY": env["EASEL_API_KEY"]}
			for name, value := range test.env {
				all[name] = value
			}
			term := openTerminal(t, 80, 24)
			path := filepath.Join(t.TempDir(), "sea.png")
			code, _ := term.finished(t, term.run(t.Context(), all, "generate", "studio/landscape", "prompt=sea", "size=640x400", "--out", path), "written to")
			got := term.written()
			colour, live := strings.Contains(got, "\x1b[3"), strings.Contains(got, "\x1b[K")
			unicode := strings.ContainsAny(got, "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏━─")
			if code != ExitOK || colour != test.colour || unicode != test.unicode || live != test.live {
				t.Errorf("exit %d, colour %v, Unicode %v, live lines %v in\n%q", code, colour, unicode, live, got)
			}
		})
	}
}

func TestAnErrorInTheMiddleStandsAloneOnATerminal(t *testing.T) {
	env := startDev(t)
	term := openTerminal(t, 60, 24)
	code, last := term.finished(t, term.run(t.Context(), env, "generate", "studio/haiku", "prompt=[fail]", "--watch"), "failed")
	if code != ExitRenderFailed {
		t.Errorf("exit %d", code)
	}
	for line := range strings.Lines(last) {
		if strings.Contains(line, "easel: ") && !strings.HasPrefix(line, "easel: ") {
			t.Errorf("the error does not begin a line: %q", line)
		}
	}
}

// ownCodes are what the program itself tells a terminal: its colours, and how live lines are taken away.
var ownCodes = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33|36)m|\r\x1b\[(?:K|\d+A\x1b\[J)|\r\n`)

func TestAttackOfEveryTextOnATerminalWithColours(t *testing.T) { // A15
	env := map[string]string{"LANG": "C.UTF-8"}
	for _, state := range []easelv1.State{easelv1.State_STATE_SUCCEEDED, easelv1.State_STATE_QUEUED} {
		dial := evilServer(state, false, codes.OK, "file.png").serve(t)
		term := openTerminal(t, 60, 24)
		for _, command := range evilCommands(t.TempDir()) {
			for _, form := range [][]string{{}, {"-q"}, {"-o", "json"}} {
				Run(t.Context(), slices.Concat(command, form, []string{"--timeout", "200ms"}), &Program{
					Grammar: grammar(), Build: thisBuild(),
					Stdin: strings.NewReader(""), Stdout: term.child, Stderr: term.child, Dial: dial,
					Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
				})
			}
		}
		fmt.Fprintln(term.child, "the end")
		term.until(t, "end", func(screen string) bool { return strings.Contains(screen, "the end") })
		written := term.written()
		if !strings.Contains(written, "\x1b[1m") || state == easelv1.State_STATE_QUEUED && !strings.Contains(written, "\x1b[K") {
			t.Errorf("no colours or no live lines are written, which proves nothing: %q", written)
		}
		if at := strings.Index(written, "\x1b[31me\x1b[0m"); at >= 0 {
			t.Errorf("a catalog has coloured a text: %q", written[max(0, at-300):at+20])
		}
		wantHarmless(t, state.String(), ownCodes.ReplaceAllString(written, "\n"))
	}
}
