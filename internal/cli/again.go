package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/easel-grpc/easel/internal/terminal"
)

// again is a command line that reaches the same server in the same way.
func (p *Program) again(words ...string) string {
	line := "easel"
	for _, word := range words {
		line += " " + terminal.ShellQuote(word)
	}
	return line + p.reach
}

// sameAgain is the command line of this run, with the key that was made up for it.
func (p *Program) sameAgain(madeUp bool, key string) string {
	line := "easel"
	for _, word := range p.args {
		line += " " + terminal.ShellQuote(word)
	}
	if madeUp {
		line += " --idempotency-key " + key
	}
	return line
}

// reachOf repeats the flags of the connection that were given on the command line. What
// the environment and profiles say is there the next time too.
func reachOf(line *kong.Context) string {
	var reach strings.Builder
	for _, at := range line.Path {
		if at.Flag == nil || at.Resolved || at.Flag.Group == nil || at.Flag.Group.Key != "connection" || at.Flag.Name == "timeout" {
			continue
		}
		reach.WriteString(" --" + at.Flag.Name)
		if !at.Flag.IsBool() {
			reach.WriteString(" " + terminal.ShellQuote(fmt.Sprint(line.FlagValue(at.Flag))))
		}
	}
	return reach.String()
}
