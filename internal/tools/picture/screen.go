package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cell is one place of a screen: a character, and how it is written, as the numbers of the
// terminal's own language ("", "2", "36").
type cell struct {
	char  rune
	style string
}

// line is a row of a screen.
type line []cell

// screen is a terminal, as far as easel uses one: text that wraps, the start of the line, up,
// taking away what follows, and styles. Anything else is an error, or a picture would be wrong.
type screen struct {
	width    int
	lines    []line
	row, col int
	style    string
	pending  string // a command that has not come whole
}

func newScreen(width int) *screen { return &screen{width: width, lines: make([]line, 1)} }

// typeCommand shows a command as a person types it, after a prompt.
func (s *screen) typeCommand(words []string) {
	text := "\x1b[32m$\x1b[0m"
	for _, word := range words {
		if name, value, ok := strings.Cut(word, "="); ok && strings.Contains(value, " ") {
			word = name + `="` + value + `"`
		}
		text += " " + word
	}
	_ = s.write(text + "\r\n") // it holds no command that is not known
}

// seen is a copy of what stands on the screen.
func (s *screen) seen() []line {
	lines := make([]line, len(s.lines))
	for n, l := range s.lines {
		lines[n] = slices.Clone(l)
	}
	return lines
}

func (s *screen) write(text string) error {
	runes := []rune(s.pending + text)
	s.pending = ""
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '\r':
			s.col = 0
		case r == '\n':
			s.down()
		case r == '\x1b':
			end := i + 2
			for end < len(runes) && strings.ContainsRune("0123456789;?", runes[end]) {
				end++
			}
			if end >= len(runes) {
				s.pending = string(runes[i:])
				return nil
			}
			if err := s.command(string(runes[i+2:end]), runes[end]); err != nil {
				return err
			}
			i = end
		default:
			s.put(r)
		}
	}
	return nil
}

func (s *screen) command(number string, what rune) error {
	switch what {
	case 'A':
		up, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("up by %q lines: %w", number, err)
		}
		s.row = max(s.row-up, 0)
	case 'K':
		s.cut()
	case 'J':
		s.cut()
		s.lines = s.lines[:s.row+1]
	case 'm':
		s.style = strings.TrimPrefix(number, "0")
	default:
		return fmt.Errorf("a terminal's command that is not drawn here: %q %q", number, what)
	}
	return nil
}

func (s *screen) cut() {
	if l := s.lines[s.row]; len(l) > s.col {
		s.lines[s.row] = l[:s.col]
	}
}

func (s *screen) put(r rune) {
	if s.col >= s.width {
		s.down()
	}
	l := s.lines[s.row]
	for len(l) <= s.col {
		l = append(l, cell{' ', ""})
	}
	l[s.col] = cell{r, s.style}
	s.lines[s.row] = l
	s.col++
}

// down begins the next line.
func (s *screen) down() {
	s.row, s.col = s.row+1, 0
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
}
