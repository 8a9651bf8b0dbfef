package terminal

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// columns measures text. The locale, which its zero value does not read, would make more characters wide.
var columns runewidth.Condition

// Width returns the number of columns that a line takes on a terminal. Colours take none.
func Width(line string) int {
	return columns.StringWidth(strings.Map(func(r rune) rune {
		if isColour(r) {
			return -1
		}
		return r
	}, line))
}

// Cut shortens a line to a number of columns, so that it does not wrap.
func Cut(line string, width int) string {
	if Width(line) <= width {
		return line
	}
	var out strings.Builder
	for width > 0 {
		plain := line
		if at := strings.IndexFunc(line, isColour); at >= 0 {
			plain = line[:at]
		}
		part := columns.Truncate(plain, width, "")
		width -= Width(part)
		out.WriteString(part)
		if line = line[len(plain):]; len(part) < len(plain) || line == "" {
			break
		}
		colour := line[:len(uncoloured)]
		out.WriteString(colour)
		line = line[len(colour):]
	}
	if strings.ContainsFunc(out.String(), isColour) {
		out.WriteString(uncoloured)
	}
	return out.String()
}
