// Package terminal writes the output of commands for people: results, remarks, tables, colors, and a line that shows the
// current progress. It escapes control characters in untrusted text, so that the text can't control the terminal.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Console writes results to one stream and remarks to another. If the stream for remarks is a terminal, its last line
// can be a live line, which the next output replaces. The methods may be called concurrently.
type Console struct {
	mu       sync.Mutex
	out, err io.Writer
	live     string // live line that is shown; empty if no live line is shown
	failed   error  // first error from writing a line to out

	OutStyle, ErrStyle Style
	Columns            func() int // returns the width, in columns, of the terminal to which remarks are written
}

// NewConsole creates a console that writes results to stdout and remarks to stderr. env returns the value of an
// environment variable; TERM and NO_COLOR determine the styles.
func NewConsole(stdout, stderr io.Writer, env func(name string) string) *Console {
	return &Console{out: stdout, err: stderr, OutStyle: StyleOf(stdout, env), ErrStyle: StyleOf(stderr, env), Columns: func() int {
		if file, ok := stderr.(*os.File); ok {
			if width, _, stderr := term.GetSize(int(file.Fd())); stderr == nil && width > 0 {
				return width
			}
		}
		return 80
	}}
}

// Print writes one line to the stream for results.
func (c *Console) Print(line string) { c.printStyled(c.out, c.OutStyle, line) }

// PrintText writes one or more lines of text to the stream for results.
func (c *Console) PrintText(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		c.Print(line)
	}
}

// Note writes a line to the stream for remarks.
func (c *Console) Note(line string) { c.printStyled(c.err, c.ErrStyle, line) }

// Hint writes a dimmed line to the stream for remarks.
func (c *Console) Hint(text string) { c.Note(c.ErrStyle.Paint(Dim, text)) }

// printStyled removes the line that ShowLive shows, and writes a permanent line.
func (c *Console) printStyled(w io.Writer, style Style, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if _, err := fmt.Fprintln(w, colourCodes.Replace(style.escape(line))); err != nil && w == c.out && c.failed == nil {
		c.failed = err
	}
}

// Err returns the first error that Print or PrintText encountered, such as a full disk or a closed pipe.
func (c *Console) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// ShowLive replaces the live line with line, which is dimmed and stays until the next output. If line is empty, ShowLive
// only removes the current live line. It shortens the line to the terminal's width. It does nothing if the standard
// error stream is not a terminal.
func (c *Console) ShowLive(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == c.live || !c.ErrStyle.Terminal {
		return
	}
	c.erase()
	c.live = line
	line = columns.Truncate(Sanitize(line), c.Columns()-1, "")
	_, _ = io.WriteString(c.err, colourCodes.Replace(c.ErrStyle.Paint(Dim, line)))
}

func (c *Console) erase() {
	if c.live != "" {
		_, _ = io.WriteString(c.err, "\r\x1b[J")
		c.live = ""
	}
}

// Copy copies bytes to the stream for results. If that stream is a terminal, Copy treats them as text and sanitizes
// them, as [SanitizeText] does.
func (c *Console) Copy(from io.Reader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if c.OutStyle.Terminal || isTerminal(c.out) { // OutStyle.Terminal is false for a terminal without support for escape sequences
		return copySanitized(c.out, from)
	}
	_, err := io.Copy(c.out, from)
	return err
}
