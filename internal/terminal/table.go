package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// columns measures the width of text. The zero value ignores the locale, because an East Asian locale would make more characters
// count as wide.
var columns runewidth.Condition

// Width returns the number of terminal columns that uncolored text occupies.
func Width(text string) int { return columns.StringWidth(text) }

// Cell contains the text and the color of one table cell. Line breaks in the text are printed as spaces.
type Cell struct{ Text, Colour string }

// Cells returns one uncolored cell for each text.
func Cells(texts ...string) (cells []Cell) {
	for _, text := range texts {
		cells = append(cells, Cell{Text: text})
	}
	return cells
}

// Table prints rows in columns with headings. It omits each column in which every cell is empty. It does not shorten cells.
func (c *Console) Table(heads []string, rows [][]Cell) {
	widths := make([]int, len(heads))
	for _, row := range rows {
		for i := range row {
			if row[i].Text = OneLine(row[i].Text); row[i].Text != "" {
				widths[i] = max(widths[i], Width(heads[i]), Width(row[i].Text))
			}
		}
	}
	head := Cells(heads...)
	for i := range head {
		head[i].Colour = Dim
	}
	for _, row := range append([][]Cell{head}, rows...) {
		c.Print(c.tableLine(row, widths))
	}
}

func (c *Console) tableLine(row []Cell, widths []int) string {
	var line strings.Builder
	for i, cell := range row {
		if widths[i] > 0 {
			line.WriteString(c.OutStyle.Paint(cell.Colour, cell.Text) + strings.Repeat(" ", widths[i]-Width(cell.Text)+2))
		}
	}
	return strings.TrimRight(line.String(), " ")
}

// Fields prints names and values in two columns. It omits fields without a value.
func (c *Console) Fields(fields [][2]string) {
	fields = slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == "" })
	width := 0
	for _, f := range fields {
		width = max(width, len(f[0]))
	}
	for _, f := range fields {
		c.Print(c.OutStyle.Paint(Dim, fmt.Sprintf("%-*s", width, f[0])) + "  " + f[1])
	}
}
