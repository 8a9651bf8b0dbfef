package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/cli"
)

type callersCmd struct {
	Check callersCheckCmd `cmd:"" help:"Check a callers file, and print each error with its line number."`
	Token callersTokenCmd `cmd:"" help:"Create a service token, and print its line for the callers file."`
}

type callersCheckCmd struct {
	File string `arg:"" help:"The callers file."`
}

// Run checks the callers file. It prints each error as FILE:LINE: TEXT, a format that editors and CI tools can parse.
func (c *callersCheckCmd) Run(p *cli.Program) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return toUsageProblem(err)
	}
	console := p.Console()
	list, err := auth.Parse(text)
	faults, _ := errors.AsType[auth.Faults](err) // every error from Parse has this type
	for _, fault := range faults {
		console.Print(fmt.Sprintf("%s:%d: %s", c.File, fault.Line, fault.Text))
	}
	if err != nil {
		return toUsageProblem(errors.New(c.File + " has " + formatCount(len(faults), "fault")))
	}
	if problems := fileProblems(list); len(problems) > 0 {
		return toUsageProblem(errors.New(c.File + ": " + strings.Join(problems, "; ")))
	}
	if len(list.Callers) == 0 {
		return toUsageProblem(errors.New(c.File + " lists no callers; easel serve needs at least one"))
	}
	console.Print(fmt.Sprintf("%s: %s of %s", c.File, formatCount(len(list.Callers), "caller"), formatCount(len(list.Owners()), "owner")))
	if names := unlimitedCallers(list); names != "" {
		console.Print(c.File + ": warning: no budget limits " + names + "; " + budgetHint)
	}
	for _, warning := range optionalLabels(list) {
		console.Print(c.File + ": warning: " + warning)
	}
	return console.Err()
}

// optionalLabels returns a warning for each label that has a budget but is not required. An order without the label is
// not limited by that budget.
func optionalLabels(list *auth.List) (warnings []string) {
	for _, team := range slices.SortedFunc(maps.Values(list.Teams), func(a, b auth.Team) int { return strings.Compare(a.Name, b.Name) }) {
		for _, name := range slices.Sorted(maps.Keys(team.Labels.Budgets)) {
			if !slices.Contains(team.Labels.Required, name) {
				warnings = append(warnings, fmt.Sprintf("orders of the team %s without the label %s are not limited by the label's budget; add the label to required", team.Name, name))
			}
		}
	}
	return warnings
}

// formatCount returns a number with its noun, such as "2 callers".
func formatCount(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// budgetHint is the remedy in warnings about callers without a budget.
const budgetHint = "set a budget for the caller, for its team or for all teams (total)"

// unlimitedCallers lists the callers that no budget limits: up to five names, followed by the number of the others. It
// ignores operators. It returns "" if a budget limits every caller.
func unlimitedCallers(list *auth.List) string {
	var names []string
	for _, caller := range list.Callers {
		if !list.Total.IsLimited() && !caller.Team.IsLimited() && !caller.Operator {
			names = append(names, caller.Name)
		}
	}
	named := strings.Join(names[:min(len(names), 5)], ", ")
	if more := len(names) - 5; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return named
}

type callersTokenCmd struct {
	Name string `arg:"" help:"Name of the caller."`
	Team string `placeholder:"TEAM" help:"The caller's team in the callers file. A caller without a team owns its orders itself, and has a budget only if its line contains one."`
}

// Run creates a token for a caller. It prints the token, and the line to add to the callers file.
func (c *callersTokenCmd) Run(p *cli.Program) error {
	team, teams := "", ""
	if c.Team != "" {
		team, teams = fmt.Sprintf("team: %q, ", c.Team), fmt.Sprintf("teams: {%q: {}}\n", c.Team)
	}
	token := auth.NewToken()
	line := fmt.Sprintf("- {name: %q, %stokens: [%q]}", c.Name, team, auth.Hash(token))
	if _, err := auth.Parse([]byte(teams + "callers:\n" + line)); err != nil {
		return toUsageProblem(errors.New("invalid caller or team name: " + err.Error()))
	}
	console := p.Console()
	console.Print("token  " + token)
	console.Print("line   " + line)
	if team == "" {
		console.Note("Without --team, no budget limits the caller, unless its line has a budget or the file has a total.")
	}
	return console.Err()
}
