// Package terminal writes for people: results and remarks, live lines below them, colours, and foreign
// text in a form that can't steer a terminal.
package terminal

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Console writes results to one stream and everything about them to the other, and
// keeps live lines at the bottom of a terminal. Its methods may be called
// at the same time.
type Console struct {
	mu   sync.Mutex
	out  io.Writer
	err  io.Writer
	live []string // the live lines that are asked for, none where there are none
	rows []int    // how wide each of them was drawn
	lost error    // why a line of the result could not be written

	OutStyle, ErrStyle Style
	Size               func() (width, height int) // of the terminal behind err
}

// Style says what a stream can show.
type Style struct {
	Terminal bool // somebody looks at it: live lines, short times
	Colour   bool
	Unicode  bool
}

// NewConsole makes a console of two streams. env reads the environment, which says what a terminal can show.
func NewConsole(out, err io.Writer, env func(name string) string) *Console {
	return &Console{
		out: out, err: err,
		OutStyle: StyleOf(out, env), ErrStyle: StyleOf(err, env),
		Size: func() (int, int) { return sizeOf(err) },
	}
}

// StyleOf finds out what can be shown. What is no terminal gets plain ASCII lines.
func StyleOf(w io.Writer, env func(name string) string) Style {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || env("TERM") == "dumb" {
		return Style{}
	}
	locale := cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG"))
	return Style{
		Terminal: true,
		Colour:   env("NO_COLOR") == "",
		Unicode:  strings.Contains(strings.ToUpper(strings.ReplaceAll(locale, "-", "")), "UTF8"),
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
func (c *Console) Print(line string) { c.above(c.out, c.OutStyle.shown(line)) }

// PrintText writes lines of the result.
func (c *Console) PrintText(text string) { c.above(c.out, c.OutStyle.shownLines(text)) }

// Tell writes a line about the result: what happens, and what to do.
func (c *Console) Tell(line string) { c.above(c.err, c.ErrStyle.shown(line)) }

// above writes what is harmless, and puts the live lines below it again.
func (c *Console) above(w io.Writer, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live
	c.erase()
	if _, err := fmt.Fprintln(w, text); err != nil && w == c.out && c.lost == nil {
		c.lost = err
	}
	c.draw(live)
}

// Err says why the result is not complete: a full disk, a pipe that nobody reads.
func (c *Console) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// Paint colours text where the stream shows colours.
func (s Style) Paint(colour, text string) string {
	if !s.Colour || colour == "" || text == "" {
		return text
	}
	return colour + text + uncoloured
}

// visible writes what a terminal would obey in one line in its visible form, but for the colours of
// a stream that has some.
func (s Style) visible(line string) string {
	return spelled(line, func(r rune) bool { return isObeyed(r) && r != '\t' || isColour(r) && !s.Colour })
}

// shown writes one line as a stream gets it.
func (s Style) shown(line string) string { return colourCodes.Replace(s.visible(line)) }

// shownLines does the same to each line of a text.
func (s Style) shownLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = s.shown(line)
	}
	return strings.Join(lines, "\n")
}

// Either picks the Unicode or the ASCII spelling.
func (s Style) Either(unicode, ascii string) string {
	if s.Unicode {
		return unicode
	}
	return ascii
}

// Bar draws a share from 0 to 1.
func (s Style) Bar(share float64, width int) string {
	full := min(max(int(share*float64(width)), 0), width)
	return strings.Repeat(s.Either("━", "#"), full) + s.Paint(Dim, strings.Repeat(s.Either("─", "."), width-full))
}

// Spinner draws one frame of "something goes on".
func (s Style) Spinner(frame int) string {
	frames := []rune(s.Either("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", `|/-\`))
	return string(frames[frame%len(frames)])
}
