package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// console writes results to one stream and everything about them to the other, and
// keeps live lines at the bottom of a terminal. Its methods may be called
// at the same time.
type console struct {
	mu   sync.Mutex
	out  io.Writer
	err  io.Writer
	live []string // the live lines that are asked for, none where there are none
	rows []int    // how wide each of them was drawn
	lost error    // why a line of the result could not be written

	outStyle, errStyle style
	size               func() (width, height int) // of the terminal behind err
}

// style says what a stream can show.
type style struct {
	terminal bool // somebody looks at it: live lines, short times
	colour   bool
	unicode  bool
}

func newConsole(p *program) *console {
	return &console{
		out: p.stdout, err: p.stderr,
		outStyle: styleOf(p, p.stdout), errStyle: styleOf(p, p.stderr),
		size: func() (int, int) { return sizeOf(p.stderr) },
	}
}

// styleOf finds out what can be shown. What is no terminal gets plain ASCII lines.
func styleOf(p *program, w io.Writer) style {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || p.env("TERM") == "dumb" {
		return style{}
	}
	locale := cmp.Or(p.env("LC_ALL"), p.env("LC_CTYPE"), p.env("LANG"))
	return style{
		terminal: true,
		colour:   p.env("NO_COLOR") == "",
		unicode:  strings.Contains(strings.ToUpper(strings.ReplaceAll(locale, "-", "")), "UTF8"),
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

// print writes a line of the result.
func (c *console) print(line string) { c.above(c.out, c.outStyle.shown(line)) }

// printText writes lines of the result.
func (c *console) printText(text string) { c.above(c.out, c.outStyle.shownLines(text)) }

// tell writes a line about the result: what happens, and what to do.
func (c *console) tell(line string) { c.above(c.err, c.errStyle.shown(line)) }

// above writes what is harmless, and puts the live lines below it again.
func (c *console) above(w io.Writer, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live
	c.erase()
	if _, err := fmt.Fprintln(w, text); err != nil && w == c.out && c.lost == nil {
		c.lost = err
	}
	c.draw(live)
}

// broken says why the result is not complete: a full disk, a pipe that nobody reads.
func (c *console) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// paint colours text where the stream shows colours.
func (s style) paint(colour, text string) string {
	if !s.colour || colour == "" || text == "" {
		return text
	}
	return colour + text + uncoloured
}

// visible writes what a terminal would obey in one line in its visible form, but for the colours of
// a stream that has some.
func (s style) visible(line string) string {
	return spelled(line, func(r rune) bool { return isObeyed(r) && r != '\t' || isColour(r) && !s.colour })
}

// shown writes one line as a stream gets it.
func (s style) shown(line string) string { return colourCodes.Replace(s.visible(line)) }

// shownLines does the same to each line of a text.
func (s style) shownLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = s.shown(line)
	}
	return strings.Join(lines, "\n")
}

// either picks the Unicode or the ASCII spelling.
func (s style) either(unicode, ascii string) string {
	if s.unicode {
		return unicode
	}
	return ascii
}

// bar draws a share from 0 to 1.
func (s style) bar(share float64, width int) string {
	full := min(max(int(share*float64(width)), 0), width)
	return strings.Repeat(s.either("━", "#"), full) + s.paint(dim, strings.Repeat(s.either("─", "."), width-full))
}

// spinner draws one frame of "something goes on".
func (s style) spinner(frame int) string {
	frames := []rune(s.either("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", `|/-\`))
	return string(frames[frame%len(frames)])
}
