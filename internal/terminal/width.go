package terminal

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// columns measures text. The locale, which its zero value does not read, would make more characters wide.
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

// Width returns the number of columns that a line takes on a terminal. Colours take none.
func Width(line string) int { return columns.StringWidth(uncolouredText(line)) }

// Cut shortens a line to a number of columns, so that it does not wrap. A line that is too long loses its colours.
func Cut(line string, width int) string {
	if Width(line) <= width {
		return line
	}
	return columns.Truncate(uncolouredText(line), width, "")
}
