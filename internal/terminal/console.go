// Package terminal writes for people: results and remarks, live lines below them, colours, and foreign
// text in a form that can't steer a terminal.
package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// Console writes results to one stream and everything about them to the other, and keeps a live line at the bottom of a
// terminal. Its methods may be called at the same time.
type Console struct {
	mu     sync.Mutex
	out    io.Writer
	err    io.Writer
	live   string // the live line that is asked for, "" where there is none
	drawn  int    // how wide it was drawn
	failed error  // why a line of the result could not be written

	OutStyle, ErrStyle Style
	Size               func() (width, height int) // of the terminal behind err
}

// NewConsole makes a console of two streams. env reads the environment, which says what a terminal can show.
func NewConsole(out, err io.Writer, env func(name string) string) *Console {
	return &Console{
		out: out, err: err,
		OutStyle: StyleOf(out, env), ErrStyle: StyleOf(err, env),
		Size: func() (int, int) { return sizeOf(err) },
	}
}

func sizeOf(w io.Writer) (width, height int) {
	if file, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}

// Print writes a line of the result.
func (c *Console) Print(line string) { c.printAbove(c.out, c.OutStyle.shown(line)) }

// PrintText writes lines of the result.
func (c *Console) PrintText(text string) { c.printAbove(c.out, c.OutStyle.shownLines(text)) }

// Tell writes a line about the result: what happens, and what to do.
func (c *Console) Tell(line string) { c.printAbove(c.err, c.ErrStyle.shown(line)) }

// Hint tells it in dim lines that fit the terminal.
func (c *Console) Hint(text string) {
	for _, line := range Wrap(text, c.WidthOf(c.ErrStyle), 4) {
		c.Tell(c.ErrStyle.Paint(Dim, line))
	}
}

// printAbove writes what is harmless, and puts the live line below it again.
func (c *Console) printAbove(w io.Writer, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live
	c.erase()
	if _, err := fmt.Fprintln(w, text); err != nil && w == c.out && c.failed == nil {
		c.failed = err
	}
	c.draw(live)
}

// Err says why the result is not complete: a full disk, a pipe that nobody reads.
func (c *Console) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// ShowLive replaces the live line, or takes it away for "". Without a terminal there is none.
func (c *Console) ShowLive(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line != c.live {
		c.erase()
		c.draw(line)
	}
}

// erase takes the live line away. A terminal that has become narrower since has wrapped it, so that it may take more than
// one row by now.
func (c *Console) erase() {
	if c.live == "" {
		return
	}
	width, _ := c.Size()
	if rows := (c.drawn + width - 1) / width; rows > 1 {
		_, _ = fmt.Fprintf(c.err, "\r\x1b[%dA\x1b[J", rows-1)
	} else {
		_, _ = io.WriteString(c.err, "\r\x1b[K")
	}
	c.live = ""
}

func (c *Console) draw(line string) {
	if line == "" || !c.ErrStyle.Terminal {
		return
	}
	width, _ := c.Size()
	c.live = line
	line = Cut(c.ErrStyle.visible(line), width-1)
	c.drawn = Width(line)
	_, _ = io.WriteString(c.err, colourCodes.Replace(line))
}

// WidthOf is the width of the terminal that a stream of this style goes to, 0 where it goes elsewhere.
func (c *Console) WidthOf(stream Style) (width int) {
	if stream.Terminal {
		width, _ = c.Size()
	}
	return width
}

// BarWidth is how long a bar may be so that what is said beside it still fits.
func (c *Console) BarWidth() int {
	width, _ := c.Size()
	return min(max(width-44, 6), 24)
}

// Copy writes bytes of the result: to a terminal in a form that can't steer it, else as they are.
func (c *Console) Copy(from io.Reader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if c.OutStyle.Terminal || isTerminal(c.out) { // a style has no dumb terminals
		return copySanitized(c.out, from)
	}
	_, err := io.Copy(c.out, from)
	return err
}
