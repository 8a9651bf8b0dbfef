package main

import (
	"fmt"
	"slices"

	"github.com/easel-grpc/easel/internal/catalog"
)

// printReport tells what the doctor has seen.
func (s *session) printReport(url string, checks []check) {
	if s.json {
		s.printText(jsonText(map[string]any{
			"upstream": url, "rulesFile": catalog.RulesFile, "checks": checks,
			"ok": !slices.ContainsFunc(checks, func(c check) bool { return !c.OK }),
		}))
		return
	}
	if !s.quiet {
		s.print(s.outStyle.paint(bold, oneLine(url)))
	}
	for _, c := range checks {
		if !s.quiet || !c.OK {
			s.printCheck(c)
		}
	}
}

func (s *session) printCheck(c check) {
	look := s.outStyle
	mark := look.paint(green, look.either("✓", "ok "))
	switch {
	case c.Skipped:
		mark = look.paint(dim, look.either("–", "-- "))
	case !c.OK:
		mark = look.paint(red, look.either("✗", "BAD"))
	}
	line := mark + " " + look.paint(bold, fmt.Sprintf("%-9s", c.Name)) + look.paint(dim, c.Route)
	if c.Error != "" {
		line += "  " + oneLine(c.Error)
	}
	s.print(line)
	for _, f := range c.Findings {
		if !s.quiet || f.Fault != "" {
			s.printFinding(f)
		}
	}
}

func (s *session) printFinding(f catalog.Finding) {
	look := s.outStyle
	text := oneLine(f.Where)
	if f.Value != "" {
		text += ": " + oneLine(f.Value)
	}
	if f.Fault != "" {
		colour := red
		if f.Hint {
			colour = yellow
		}
		if text != "" {
			text += ": "
		}
		text += look.paint(colour, oneLine(f.Fault))
	}
	if f.Count > 1 {
		text += look.paint(dim, fmt.Sprintf(" (%d times)", f.Count))
	}
	s.print(fmt.Sprintf("    %-18s  %s", f.Part, text))
	for _, c := range f.Cures {
		s.print("      " + look.paint(bold, "cure: ") + cureLine(c))
	}
}

// cureLine says what to add, and where.
func cureLine(c catalog.Cure) string {
	line := "in " + catalog.RulesFile + " add " + oneLine(c.Line) + " to " + c.Table
	if c.Note != "" {
		line += " (" + c.Note + ")"
	}
	return line
}
