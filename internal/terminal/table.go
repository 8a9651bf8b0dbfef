package terminal

import (
	"fmt"
	"slices"
	"strings"
)

// Cell is one field of a table with its color. It is printed as one line.
type Cell struct{ Text, Colour string }

// Cells returns cells without a color.
func Cells(texts ...string) (cells []Cell) {
	for _, text := range texts {
		cells = append(cells, Cell{Text: text})
	}
	return cells
}

// Table prints rows in columns below their headings. It omits a column that is empty in every row, and a column that
// does not fit the terminal. A last line names the latter.
func (c *Console) Table(heads []string, rows [][]Cell) {
	widths := make([]int, len(heads))
	for _, row := range rows {
		for i := range row {
			if row[i].Text = OneLine(row[i].Text); row[i].Text != "" {
				widths[i] = max(widths[i], Width(heads[i]), Width(row[i].Text))
			}
		}
	}
	missing := c.fit(heads, widths)
	head := Cells(heads...)
	for i := range head {
		head[i].Colour = Dim
	}
	for _, row := range append([][]Cell{head}, rows...) {
		c.Print(c.tableLine(row, widths))
	}
	if len(missing) > 0 {
		c.Hint("This terminal has no room for " + strings.Join(missing, ", ") + ": -o json and a pipe (| less -S) show all.")
	}
}

// Limits of the width of a shortened column. The last column has no maximum.
const minColumn, maxColumn = 8, 40

// fit shortens columns to the width of a terminal. It sets the width of a column that does not fit to 0, and returns its heading.
func (c *Console) fit(heads []string, widths []int) (missing []string) {
	room, total := c.WidthOf(c.OutStyle)-1, 0
	for _, width := range widths {
		total += width + min(width, 2)
	}
	if room < 0 || total-2 <= room {
		return nil
	}
	for i, width := range widths {
		if room < min(width, minColumn) {
			missing, widths[i] = append(missing, heads[i]), 0
		} else if width > 0 {
			if i < len(widths)-1 {
				width = min(width, maxColumn)
			}
			widths[i] = min(width, room)
			room -= widths[i] + 2
		}
	}
	return missing
}

func (c *Console) tableLine(row []Cell, widths []int) string {
	var line strings.Builder
	pending := 0 // spaces before the next nonempty cell
	for i, cell := range row {
		if widths[i] == 0 {
			continue
		}
		if Width(cell.Text) > widths[i] {
			cell.Text = Cut(cell.Text, widths[i]-1) + c.OutStyle.Either("…", "~")
		}
		if cell.Text != "" {
			line.WriteString(strings.Repeat(" ", pending) + c.OutStyle.Paint(cell.Colour, cell.Text))
			pending = 0
		}
		pending += widths[i] - Width(cell.Text) + 2
	}
	return line.String()
}

// Fields prints names and values in two columns. It omits a field without a value.
func (c *Console) Fields(fields [][2]string) {
	fields = slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == "" })
	width := 0
	for _, f := range fields {
		width = max(width, len(f[0]))
	}
	for _, f := range fields {
		name := c.OutStyle.Paint(Dim, fmt.Sprintf("%-*s", width, f[0]))
		for _, line := range Wrap(name+"  "+f[1], c.WidthOf(c.OutStyle), width+2) {
			c.Print(line)
		}
	}
}

// Wrap breaks a text between words into lines of a width, and indents all but the first. A zero width means one line.
func Wrap(text string, width, indent int) (lines []string) {
	if width <= 2*indent {
		return []string{text}
	}
	words := strings.Split(text, " ")
	line := words[0]
	for _, word := range words[1:] {
		if Width(line+" "+word) >= width && Width(line) > indent {
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		} else {
			line += " " + word
		}
	}
	return append(lines, line)
}
