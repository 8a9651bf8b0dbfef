package terminaltest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudoterminal and its visible screen.
type Terminal struct {
	Child *os.File // the program's side
	user  *os.File // the user's side

	mu     sync.Mutex
	screen *screen
	all    strings.Builder // all output
	ended  chan struct{}
}

// Open opens a terminal with a size until the end of the test.
func Open(t *testing.T, width, height int) *Terminal {
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
	term := &Terminal{user: user, Child: child, screen: newScreen(width, height), ended: make(chan struct{})}
	term.Resize(t, width, height)
	go term.read()
	t.Cleanup(func() {
		_ = child.Close() // unblocks read
		<-term.ended
		_ = user.Close()
	})
	return term
}

// read applies the output to the screen until the terminal is closed.
func (term *Terminal) read() {
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

// Resize changes the size, as if the user resized the window.
func (term *Terminal) Resize(t *testing.T, width, height int) {
	t.Helper()
	size := &unix.Winsize{Col: uint16(width), Row: uint16(height)}
	if err := unix.IoctlSetWinsize(int(term.user.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	term.mu.Lock()
	defer term.mu.Unlock()
	term.screen.resize(width)
}

// Seen returns the screen, without blank lines at its end.
func (term *Terminal) Seen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// Written returns all output.
func (term *Terminal) Written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.all.String()
}

// Until waits until fits accepts the screen, and returns the screen.
func (term *Terminal) Until(t *testing.T, what string, fits func(screen string) bool) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		screen := term.Seen()
		if fits(screen) {
			return screen
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s on\n%s", what, screen)
		}
		time.Sleep(10 * time.Millisecond) // changes send no notification
	}
}
