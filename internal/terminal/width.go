package terminal

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// columns measures text. Its zero value ignores the locale, which would make more characters wide.
var columns runewidth.Condition

// uncolouredText returns a line without its colours.
func uncolouredText(line string) string {
	return strings.Map(func(r rune) rune {
		if isColour(r) {
			return -1
		}
		return r
	}, line)
}

// Width returns the number of terminal columns of a line. Colors have no width.
func Width(line string) int { return columns.StringWidth(uncolouredText(line)) }

// Cut shortens a line to a number of columns, so that it does not wrap. A shortened line loses its colors.
func Cut(line string, width int) string {
	if Width(line) <= width {
		return line
	}
	return columns.Truncate(uncolouredText(line), width, "")
}
