package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// ShowLive replaces the live lines with one, or with none for "". Without a terminal there
// are none.
func (c *Console) ShowLive(line string) {
	if line == "" {
		c.ShowLines(nil)
		return
	}
	c.ShowLines([]string{line})
}

// ShowLines replaces the live lines. There is no room for more than the terminal has, less
// one for what is printed above them.
func (c *Console) ShowLines(lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(lines, c.live) {
		c.erase()
		c.draw(lines)
	}
}

// erase takes the live lines away. A terminal that has become narrower since has wrapped
// them, so that each may take more than one row by now.
func (c *Console) erase() {
	if len(c.live) == 0 {
		return
	}
	width, _ := c.Size()
	rows := 0
	for _, drawn := range c.rows {
		rows += max((drawn+width-1)/width, 1)
	}
	if rows > 1 {
		_, _ = fmt.Fprintf(c.err, "\r\x1b[%dA\x1b[J", rows-1)
	} else {
		_, _ = io.WriteString(c.err, "\r\x1b[K")
	}
	c.live, c.rows = nil, nil
}

func (c *Console) draw(lines []string) {
	if len(lines) == 0 || !c.ErrStyle.Terminal {
		return
	}
	width, height := c.Size()
	c.live, c.rows = lines, nil
	fitting := lines[max(len(lines)-max(height-1, 1), 0):]
	drawn := make([]string, len(fitting))
	for i, line := range fitting {
		line = cut(c.ErrStyle.visible(line), width-1)
		c.rows = append(c.rows, Width(line))
		drawn[i] = colourCodes.Replace(line)
	}
	_, _ = io.WriteString(c.err, strings.Join(drawn, "\n"))
}

// BarWidth is how long a bar may be so that what is said beside it still fits.
func (c *Console) BarWidth() int {
	width, _ := c.Size()
	return min(max(width-44, 6), 24)
}

// Copy writes bytes of the result as they are.
func (c *Console) Copy(from io.Reader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	_, err := io.Copy(c.out, from)
	return err
}
