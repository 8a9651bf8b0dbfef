package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

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
func (c *console) print(line string) { c.above(c.out, line) }

// tell writes a line about the result: what happens, and what to do.
func (c *console) tell(line string) { c.above(c.err, line) }

// above writes a line and puts the live lines below it again.
func (c *console) above(w io.Writer, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live
	c.erase()
	if _, err := fmt.Fprintln(w, line); err != nil && w == c.out && c.lost == nil {
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

// cut shortens a line to what fits, so that it never wraps; colours take no room.
func cut(line string, width int) string {
	room, coloured := width, false
	for at := 0; at < len(line); {
		if strings.HasPrefix(line[at:], "\x1b[") {
			end := strings.IndexByte(line[at:], 'm')
			if end < 0 {
				return line[:at]
			}
			at += end + 1
			coloured = true
			continue
		}
		if room == 0 {
			if coloured {
				return line[:at] + "\x1b[0m"
			}
			return line[:at]
		}
		room--
		_, size := utf8.DecodeRuneInString(line[at:])
		at += size
	}
	return line
}

// Colours, by what they mean.
const (
	dim    = "2"
	bold   = "1"
	green  = "32"
	yellow = "33"
	red    = "31"
	blue   = "36"
)

// paint colours text where the stream shows colours.
func (s style) paint(colour, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
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
