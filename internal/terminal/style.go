package terminal

import (
	"cmp"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Style is the ability of a stream to show text. Its zero value has plain lines of ASCII.
type Style struct {
	Terminal bool // a person reads it: live lines, short times
	Colour   bool
	Unicode  bool
}

// StyleOf returns the style of a stream. env reads the environment.
func StyleOf(w io.Writer, env func(name string) string) Style {
	if !isTerminal(w) || env("TERM") == "dumb" {
		return Style{}
	}
	locale := strings.ToUpper(strings.ReplaceAll(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")), "-", ""))
	return Style{Terminal: true, Colour: env("NO_COLOR") == "", Unicode: strings.Contains(locale, "UTF8")}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Paint colours text if the stream shows colours.
func (s Style) Paint(colour, text string) string {
	if !s.Colour || colour == "" || text == "" {
		return text
	}
	return colour + text + uncoloured
}

// visible escapes the characters of one line that a terminal would obey, except the colours of a stream that has colours.
func (s Style) visible(line string) string {
	return escaped(line, func(r rune) bool { return isControl(r) && r != '\t' || isColour(r) && !s.Colour })
}

// Either returns the Unicode or the ASCII spelling.
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

// Spinner draws one frame of a wheel that turns.
func (s Style) Spinner(frame int) string {
	frames := []rune(s.Either("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", `|/-\`))
	return string(frames[frame%len(frames)])
}
