// Package terminal writes output for people: results and remarks, live lines, colors, and untrusted text in a form that
// can't control a terminal.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Console writes results to one stream and remarks to the other, and shows a live line at the bottom of a terminal. Its
// methods may be called concurrently.
type Console struct {
	mu       sync.Mutex
	out, err io.Writer
	live     string // live line, if any
	drawn    int    // columns of the live line
	failed   error  // first failure to write a line of the result

	OutStyle, ErrStyle Style
	Columns            func() int // returns the width of the terminal behind err
}

// NewConsole creates a console on two streams. env reads the environment, which describes the terminal.
func NewConsole(out, err io.Writer, env func(name string) string) *Console {
	return &Console{out: out, err: err, OutStyle: StyleOf(out, env), ErrStyle: StyleOf(err, env), Columns: func() int {
		if file, ok := err.(*os.File); ok {
			if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
				return width
			}
		}
		return 80
	}}
}

// Print writes a line of the result.
func (c *Console) Print(line string) { c.printAbove(c.out, c.OutStyle, line) }

// PrintText writes lines of the result.
func (c *Console) PrintText(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		c.Print(line)
	}
}

// Note writes a line about the result.
func (c *Console) Note(line string) { c.printAbove(c.err, c.ErrStyle, line) }

// Hint writes a remark in dim lines that fit the terminal.
func (c *Console) Hint(text string) {
	for _, line := range Wrap(text, c.WidthOf(c.ErrStyle), 4) {
		c.Note(c.ErrStyle.Paint(Dim, line))
	}
}

// printAbove writes a line above the live line.
func (c *Console) printAbove(w io.Writer, style Style, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live
	c.erase()
	if _, err := fmt.Fprintln(w, colourCodes.Replace(style.visible(line))); err != nil && w == c.out && c.failed == nil {
		c.failed = err
	}
	c.draw(live)
}

// Err returns the reason for an incomplete result, such as a full disk or a closed pipe.
func (c *Console) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// ShowLive replaces the live line. An empty line removes it. Without a terminal nothing is shown.
func (c *Console) ShowLive(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line != c.live {
		c.erase()
		c.draw(line)
	}
}

// erase removes the live line. On a terminal that has become narrower, it occupies several rows.
func (c *Console) erase() {
	if c.live == "" {
		return
	}
	up := ""
	if rows := (c.drawn - 1) / c.Columns(); rows > 0 {
		up = fmt.Sprintf("\x1b[%dA", rows)
	}
	_, _ = io.WriteString(c.err, "\r"+up+"\x1b[J")
	c.live = ""
}

func (c *Console) draw(line string) {
	if line == "" || !c.ErrStyle.Terminal {
		return
	}
	c.live = line
	line = Cut(c.ErrStyle.visible(line), c.Columns()-1)
	c.drawn = Width(line)
	_, _ = io.WriteString(c.err, colourCodes.Replace(line))
}

// WidthOf returns the width of the terminal behind a stream with this style, or 0 without a terminal.
func (c *Console) WidthOf(stream Style) int {
	if stream.Terminal {
		return c.Columns()
	}
	return 0
}

// BarWidth returns the width of a bar that leaves space for the text after it.
func (c *Console) BarWidth() int { return min(max(c.Columns()-44, 6), 24) }

// Copy writes bytes of the result. It sanitizes them for a terminal.
func (c *Console) Copy(from io.Reader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if c.OutStyle.Terminal || isTerminal(c.out) { // the style of a dumb terminal is not Terminal
		return copySanitized(c.out, from)
	}
	_, err := io.Copy(c.out, from)
	return err
}
