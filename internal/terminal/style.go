package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Style describes whether a stream can show a live line and colors. The zero value means that it can show neither.
type Style struct {
	Terminal bool // whether the stream is a terminal that can show a live line, which later output replaces
	Colour   bool
}

// StyleOf returns the style of a stream. env returns the value of an environment variable; TERM and NO_COLOR affect
// the style.
func StyleOf(w io.Writer, env func(name string) string) Style {
	if !isTerminal(w) || env("TERM") == "dumb" {
		return Style{}
	}
	return Style{Terminal: true, Colour: env("NO_COLOR") == ""}
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

// escape escapes the characters in a line that a terminal would interpret. It also escapes color markers, such as
// [Red], unless the stream supports colors.
func (s Style) escape(line string) string {
	return escapeKind(line, func(r rune) bool { return isControl(r) && r != '\t' || isColour(r) && !s.Colour })
}
