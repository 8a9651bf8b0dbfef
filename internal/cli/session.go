package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/easel-grpc/easel/internal/terminal"
)

// callFlags are the flags of every client command.
type callFlags struct {
	connection
	Timeout time.Duration `group:"connection" placeholder:"TIME" help:"Longest time for the command. Without it 30s for a question and 2m for placing an order; watching, waiting and downloading have no limit."`
	Output  string        `group:"output" short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json. With json errors are JSON too."`
	Quiet   bool          `group:"output" short:"q" help:"Only the result: the id, the text or the path."`
}

// AfterApply makes errors follow the format of the output from here on.
func (c *callFlags) AfterApply(p *Program) error { //nolint:unparam // the parser wants this signature
	p.JSONErrors = c.Output == "json"
	return nil
}

// Faults tells a limit that makes no sense.
func (c *callFlags) Faults() []string {
	if c.Timeout < 0 {
		return []string{"--timeout must not be negative"}
	}
	return nil
}

// session is one client command at work.
type session struct {
	*stubs
	*terminal.Console
	json        bool
	quiet       bool
	stdin       io.Reader
	commandLine func(words ...string) string // a command that reaches the same server in the same way
}

const (
	unlimited     = time.Duration(0)
	questionLimit = 30 * time.Second
	orderLimit    = 2 * time.Minute
)

// call connects and does the work of a command within its time.
func (c *callFlags) call(ctx context.Context, p *Program, limit time.Duration, do func(context.Context, *session) error) error {
	stubs, err := c.open(p)
	if err != nil {
		return err
	}
	defer stubs.close()
	if limit = cmp.Or(c.Timeout, limit); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	s := &session{
		stubs:       stubs,
		Console:     p.Console(),
		json:        c.Output == "json",
		quiet:       c.Quiet,
		stdin:       p.Stdin,
		commandLine: p.commandLine,
	}
	if err := do(ctx, s); err != nil {
		p.likelyModel = s.likelyModel(ctx, err)
		return err
	}
	return s.Err()
}

// commandLine is a command line that reaches the same server in the same way.
func (p *Program) commandLine(words ...string) string {
	line := "easel"
	for _, word := range words {
		line += " " + terminal.ShellQuote(word)
	}
	return line + p.connectionFlags
}

// retryCommand is the command line of this run, with the key that was made up for it.
func (p *Program) retryCommand(madeUp bool, key string) string {
	line := "easel"
	for _, word := range p.args {
		line += " " + terminal.ShellQuote(word)
	}
	if madeUp {
		line += " --idempotency-key " + key
	}
	return line
}

// connectionFlagsOf repeats the flags of the connection that were given on the command line. What
// the environment and profiles say is there the next time too.
func connectionFlagsOf(line *kong.Context) string {
	var flags strings.Builder
	for _, at := range line.Path {
		if at.Flag == nil || at.Resolved || at.Flag.Group == nil || at.Flag.Group.Key != "connection" || at.Flag.Name == "timeout" {
			continue
		}
		flags.WriteString(" --" + at.Flag.Name)
		if !at.Flag.IsBool() {
			flags.WriteString(" " + terminal.ShellQuote(fmt.Sprint(line.FlagValue(at.Flag))))
		}
	}
	return flags.String()
}
