package doctor

import (
	"fmt"
	"slices"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/terminal"
)

// Report is what an examination has shown.
type Report struct {
	Checks    []Check `json:"checks"`
	OK        bool    `json:"ok"`
	RulesFile string  `json:"rulesFile"`
	Upstream  string  `json:"upstream"`
	Ledger    string  `json:"ledger,omitempty"`
}

// Check is one question, and what came of it.
type Check struct {
	Name     string    `json:"name"`
	Route    string    `json:"route"`
	OK       bool      `json:"ok"`
	Skipped  bool      `json:"skipped,omitempty"`
	Error    string    `json:"error,omitempty"`
	Findings []Finding `json:"findings,omitempty"`

	kind catalog.Kind // of the error
}

func newReport(upstream string, checks []Check) *Report {
	failed := slices.ContainsFunc(checks, func(c Check) bool { return !c.OK })
	return &Report{Checks: checks, OK: !failed, RulesFile: catalog.RulesFile, Upstream: upstream}
}

// Failure is a check that did not go well.
type Failure struct {
	Kind catalog.Kind // of what the catalog answered, 0 where it answered and could not be read
	Text string
	Fix  string // what to do about it, "" where the findings say it
}

// Failure is the first check that did not go well, nil where all did.
func (r *Report) Failure() *Failure {
	for _, c := range r.Checks {
		if c.OK {
			continue
		}
		f := &Failure{Kind: c.kind, Text: "the catalog can't be read in full: " + c.Name + " (" + c.Route + ")"}
		switch c.kind {
		case catalog.KindCredentialRejected, catalog.KindForbidden:
			f.Text, f.Fix = "the catalog rejects the API key", "Check EASEL_API_KEY or --upstream-key-file, and that it is an API key of this catalog."
		case catalog.KindUnavailable, catalog.KindRateLimited:
			f.Text, f.Fix = "the catalog did not answer: "+c.Error, "Is this its base address? See --upstream-url."
		case catalog.KindContract, catalog.KindRedirect:
			f.Fix = "Is this the base address of a catalog? See --upstream-url."
		}
		return f
	}
	return nil
}

// Print writes the report for a person; quiet leaves out what could be read.
func (r *Report) Print(console *terminal.Console, quiet bool) {
	if !quiet {
		console.Print(console.OutStyle.Paint(terminal.Bold, terminal.OneLine(r.Upstream)))
		if r.Ledger != "" {
			console.Print("the ledger of the settings, which is not opened here, is " + r.Ledger)
		}
	}
	for _, c := range r.Checks {
		if !quiet || !c.OK {
			c.print(console, quiet)
		}
	}
}

func (c Check) print(console *terminal.Console, quiet bool) {
	look := console.OutStyle
	mark := look.Paint(terminal.Green, look.Either("✓", "ok "))
	switch {
	case c.Skipped:
		mark = look.Paint(terminal.Dim, look.Either("–", "-- "))
	case !c.OK:
		mark = look.Paint(terminal.Red, look.Either("✗", "BAD"))
	}
	line := mark + " " + look.Paint(terminal.Bold, fmt.Sprintf("%-9s", c.Name)) + look.Paint(terminal.Dim, c.Route)
	if c.Error != "" {
		line += "  " + terminal.OneLine(c.Error)
	}
	console.Print(line)
	for _, f := range c.Findings {
		if !quiet || f.Fault != "" {
			printFinding(console, f)
		}
	}
}

func printFinding(console *terminal.Console, f Finding) {
	look := console.OutStyle
	text := terminal.OneLine(f.Where)
	if f.Value != "" {
		text += ": " + terminal.OneLine(f.Value)
	}
	if f.Fault != "" {
		colour := terminal.Red
		if f.Hint {
			colour = terminal.Yellow
		}
		if text != "" {
			text += ": "
		}
		text += look.Paint(colour, terminal.OneLine(f.Fault))
	}
	if f.Count > 1 {
		text += look.Paint(terminal.Dim, fmt.Sprintf(" (%d times)", f.Count))
	}
	console.Print(fmt.Sprintf("    %-18s  %s", f.Part, text))
	for _, c := range f.Fixes {
		console.Print("      " + look.Paint(terminal.Bold, "cure: ") + fixLine(c))
	}
}

// fixLine says what to add, and where.
func fixLine(c Fix) string {
	line := "in " + catalog.RulesFile + " add " + terminal.OneLine(c.Line) + " to " + c.Table
	if c.Note != "" {
		line += " (" + c.Note + ")"
	}
	return line
}
