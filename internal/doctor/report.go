package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// Failure tells of the first check that did not go well: the kind of the error, what is the matter, and what to do
// about it where the findings do not say it. It gives "" where all went well.
func (r *Report) Failure() (kind catalog.Kind, text, fix string) {
	for _, c := range r.Checks {
		switch {
		case c.OK:
			continue
		case c.kind == catalog.KindCredentialRejected || c.kind == catalog.KindForbidden:
			return c.kind, "the catalog rejects the API key", "Check EASEL_API_KEY or --upstream-key-file, and that it is an API key of this catalog."
		case c.kind == catalog.KindUnavailable || c.kind == catalog.KindRateLimited:
			return c.kind, "the catalog did not answer: " + c.Error, "Is this its base address? See --upstream-url."
		case c.kind == catalog.KindContract || c.kind == catalog.KindRedirect:
			fix = "Is this the base address of a catalog? See --upstream-url."
		}
		return c.kind, "the catalog can't be read in full: " + c.Name + " (" + c.Route + ")", fix
	}
	return 0, "", ""
}

// Text is the report for a person; brief leaves out what could be read.
func (r *Report) Text(brief bool) string {
	var text strings.Builder
	if !brief {
		fmt.Fprintln(&text, r.Upstream)
		fmt.Fprintln(&text, "the ledger of the settings, which is not opened here, is", r.Ledger)
	}
	for _, c := range r.Checks {
		if !brief || !c.OK {
			mark := map[bool]string{true: "ok ", false: "BAD"}[c.OK]
			fmt.Fprintf(&text, "%s %-9s%s  %s\n", cmp.Or(map[bool]string{true: "-- "}[c.Skipped], mark), c.Name, c.Route, c.Error)
		}
		for _, f := range c.Findings {
			if f.Fault != "" || !brief {
				fmt.Fprint(&text, f)
			}
		}
	}
	return text.String()
}

// String is the finding for a person, with the lines that would cure it.
func (f Finding) String() string {
	said := slices.DeleteFunc([]string{f.Where, f.Value, f.Fault}, func(text string) bool { return text == "" })
	text := fmt.Sprintf("    %-18s  %s", f.Part, terminal.OneLine(strings.Join(said, ": ")))
	if f.Count > 1 {
		text += fmt.Sprintf(" (%d times)", f.Count)
	}
	for _, c := range f.Fixes {
		text += "\n      cure: in " + catalog.RulesFile + " add " + terminal.OneLine(c.Line) + " to " + c.Table
		if c.Note != "" {
			text += " (" + c.Note + ")"
		}
	}
	return text + "\n"
}
