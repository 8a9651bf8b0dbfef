package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/creack/pty"
)

// frame is what the terminal showed from a moment on.
type frame struct {
	at    time.Duration
	lines []line
}

// pace is the least time between two frames that a viewer gets to see.
const pace = 100 * time.Millisecond

// record runs a command on a terminal, and gives what was to be seen there and when. A frame
// that another replaced sooner than a viewer could see it is left out.
func record(c *exec.Cmd) (frames []frame, err error) {
	terminal, err := pty.StartWithSize(c, &pty.Winsize{Cols: width, Rows: height})
	if err != nil {
		return nil, err
	}
	defer terminal.Close()
	s, began := newScreen(width), time.Now()
	s.typeCommand(shown)
	frames = append(frames, frame{0, s.seen()})
	for buffer := make([]byte, 4096); ; {
		n, readErr := terminal.Read(buffer)
		if err := s.write(string(buffer[:n])); err != nil {
			return nil, err
		}
		next := frame{time.Since(began), s.seen()}
		if last := &frames[len(frames)-1]; len(frames) > 1 && next.at-last.at < pace {
			last.lines = next.lines
		} else {
			frames = append(frames, next)
		}
		if readErr != nil { // at the end a terminal has no io.EOF of its own
			break
		}
	}
	if err := c.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)
	}
	return frames, nil
}
