package terminal

import (
	"fmt"
	"slices"
	"strings"
)

// Cell is one field of a table, and its colour. It is one line, whatever somebody has written in it.
type Cell struct{ Text, Colour string }

// Cells are fields without a colour.
func Cells(texts ...string) (cells []Cell) {
	for _, text := range texts {
		cells = append(cells, Cell{Text: text})
	}
	return cells
}

// Table prints rows in columns below their heads. Columns that are empty in every row are left out. So are those that a
// terminal has no room for, and it says which.
func (c *Console) Table(heads []string, rows [][]Cell) {
	widths := make([]int, len(heads))
	for _, row := range rows {
		for i := range row {
			if row[i].Text = OneLine(row[i].Text); row[i].Text != "" {
				widths[i] = max(widths[i], Width(heads[i]), Width(row[i].Text))
			}
		}
	}
	head, missing, room := Cells(heads...), c.fit(heads, widths), c.WidthOf(c.OutStyle)-1
	for i := range head {
		head[i].Colour = Dim
	}
	for _, row := range append([][]Cell{head}, rows...) {
		line := c.tableLine(row, widths)
		if room > 0 && Width(line) > room {
			line = Cut(line, room-1) + c.OutStyle.Either("…", "~")
		}
		c.Print(line)
	}
	if len(missing) > 0 {
		c.Hint("This terminal has no room for " + strings.Join(missing, ", ") + ": -o json and a pipe (| less -S) show all.")
	}
}

// fit takes the columns away that a terminal has no room for, and gives their heads. The last one that stays may be cut.
func (c *Console) fit(heads []string, widths []int) (missing []string) {
	const least, most = 8, 40 // letters of a column that is cut
	room, at, all := c.WidthOf(c.OutStyle), 0, 0
	for _, width := range widths {
		all += width + min(width, 2)
	}
	for i, width := range widths {
		if room > 0 && all > room && i < len(widths)-1 {
			width = min(width, most)
			widths[i] = width
		}
		switch {
		case width == 0 || room == 0:
		case at+min(width, least) < room:
			at += width + 2
		default:
			missing, widths[i] = append(missing, heads[i]), 0
		}
	}
	return missing
}

func (c *Console) tableLine(row []Cell, widths []int) string {
	var line strings.Builder
	pending := 0 // spaces that are only written where something follows them
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

// Fields prints names and values in two columns. Fields without a value are left out.
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

// Wrap breaks a text between words so that its lines fit, and indents all but the first. Without a width it stays
// one line.
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
