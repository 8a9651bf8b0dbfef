package terminal

import (
	"cmp"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Style describes the capabilities of a stream. The zero value means plain lines of ASCII.
type Style struct {
	Terminal bool // whether a person reads it, with live lines and short times
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

// Paint colors text if the stream supports colors.
func (s Style) Paint(colour, text string) string {
	if !s.Colour || colour == "" || text == "" {
		return text
	}
	return colour + text + uncoloured
}

// visible escapes the characters of a line that a terminal would interpret, except colors that the stream supports.
func (s Style) visible(line string) string {
	return escaped(line, func(r rune) bool { return isControl(r) && r != '\t' || isColour(r) && !s.Colour })
}

// Either returns unicode if the stream supports it, otherwise ascii.
func (s Style) Either(unicode, ascii string) string {
	if s.Unicode {
		return unicode
	}
	return ascii
}

// Bar returns a bar for a share from 0 to 1.
func (s Style) Bar(share float64, width int) string {
	full := min(max(int(share*float64(width)), 0), width)
	return strings.Repeat(s.Either("━", "#"), full) + s.Paint(Dim, strings.Repeat(s.Either("─", "."), width-full))
}

// Spinner returns one frame of a spinner.
func (s Style) Spinner(frame int) string {
	frames := []rune(s.Either("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", `|/-\`))
	return string(frames[frame%len(frames)])
}
