package terminaltest

import (
	"strconv"
	"strings"
)

// screen simulates the terminal features that this program uses: wrapped text, start of line, cursor up, and erasure to
// the end.
type screen struct {
	width    int
	lines    []shownLine
	row, col int
	pending  string // incomplete command
}

// shownLine is a row of a screen. wrapped means that it continues the previous row.
type shownLine struct {
	text    []rune
	wrapped bool
}

func newScreen(width, _ int) *screen { return &screen{width: width, lines: make([]shownLine, 1)} }

func (s *screen) write(text string) {
	text = s.pending + text
	s.pending = ""
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '\r':
			s.col = 0
		case '\n':
			s.row, s.col = s.row+1, 0
			s.reach()
		case '\x1b':
			end := i + 2
			for end < len(runes) && strings.ContainsRune("0123456789;", runes[end]) {
				end++
			}
			if end >= len(runes) {
				s.pending = string(runes[i:])
				return
			}
			s.command(string(runes[i+2:end]), runes[end])
			i = end
		default:
			s.put(r)
		}
	}
}

func (s *screen) command(number string, what rune) {
	switch what {
	case 'A':
		up, _ := strconv.Atoi(number)
		s.row = max(s.row-up, 0)
	case 'K':
		s.cut()
	case 'J':
		s.cut()
		s.lines = s.lines[:s.row+1]
	}
}

func (s *screen) cut() {
	if line := &s.lines[s.row]; len(line.text) > s.col {
		line.text = line.text[:s.col]
	}
}

func (s *screen) put(r rune) {
	if s.col >= s.width {
		s.row, s.col = s.row+1, 0
		s.reach()
		s.lines[s.row].wrapped = true
	}
	line := &s.lines[s.row]
	for len(line.text) <= s.col {
		line.text = append(line.text, ' ')
	}
	line.text[s.col] = r
	s.col++
}

func (s *screen) reach() {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, shownLine{})
	}
}

// resize wraps the lines again, as terminals do. The cursor is then at the end.
func (s *screen) resize(width int) {
	var whole []string
	for _, line := range s.lines {
		if line.wrapped && len(whole) > 0 {
			whole[len(whole)-1] += string(line.text)
		} else {
			whole = append(whole, string(line.text))
		}
	}
	*s = screen{width: width, lines: make([]shownLine, 1)}
	s.write(strings.Join(whole, "\r\n"))
}

// String returns the screen, without blank lines at its end.
func (s *screen) String() string {
	var text []string
	for _, line := range s.lines {
		text = append(text, strings.TrimRight(string(line.text), " "))
	}
	return strings.TrimRight(strings.Join(text, "\n"), "\n")
}
