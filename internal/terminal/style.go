package terminal

import (
	"cmp"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Style says what a stream can show.
type Style struct {
	Terminal bool // somebody looks at it: live lines, short times
	Colour   bool
	Unicode  bool
}

// StyleOf finds out what can be shown. What is no terminal gets plain ASCII lines.
func StyleOf(w io.Writer, env func(name string) string) Style {
	if !isTerminal(w) || env("TERM") == "dumb" {
		return Style{}
	}
	locale := cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG"))
	return Style{
		Terminal: true,
		Colour:   env("NO_COLOR") == "",
		Unicode:  strings.Contains(strings.ToUpper(strings.ReplaceAll(locale, "-", "")), "UTF8"),
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
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
	return escaped(line, func(r rune) bool { return isControl(r) && r != '\t' || isColour(r) && !s.Colour })
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
