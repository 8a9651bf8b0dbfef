// Package cli implements the command line: the client commands, and the handling of flags, environment variables, errors and exit
// codes for all commands.
//
// Each command is a struct whose fields are its flags and whose Run method does the work. A [Program] has its own streams and
// environment, so that a test can run commands inside its own process.
package cli

import (
	"cmp"
	"context"
	_ "embed" // help.txt
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/terminal"
)

// Program describes one run of the program: its streams, its environment and its commands.
type Program struct {
	Name           string // path with which the program was started; empty if unknown
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(name string) (string, bool) // returns the value of an environment variable

	// Environ returns the environment variables as name=value. If it is nil, unknown variables are not reported.
	Environ func() []string

	// Dial connects client commands to a server. If it is nil, they connect over the network.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	Grammar Grammar
	Build   Build

	JSONErrors bool // whether errors and warnings are printed as JSON, as with -o json

	line            string // command line, quoted for a shell
	connectionFlags string // connection flags on the command line, quoted for a shell
}

// Grammar defines the commands and flags that a command line may contain.
type Grammar struct {
	Commands func() any    // returns a new struct whose fields are the commands
	Options  []kong.Option // additional parser options
}

// Commands contains the client commands, and the commands about the program itself, such as version.
type Commands struct {
	Account  accountCmd  `cmd:"" group:"call" help:"Show the balance, and the budgets of your team."`
	Usage    usageCmd    `cmd:"" group:"call" help:"Show the number of orders and their costs."`
	Models   modelsCmd   `cmd:"" group:"call" help:"List the models."`
	Model    modelCmd    `cmd:"" group:"call" help:"Show a model and its inputs."`
	Quote    quoteCmd    `cmd:"" group:"call" help:"Show the price of a render, without ordering it."`
	Generate generateCmd `cmd:"" group:"call" help:"Order a render, which costs money."`
	Get      getCmd      `cmd:"" group:"call" help:"Show a render."`
	List     listCmd     `cmd:"" group:"call" help:"List the recent renders."`
	Wait     waitCmd     `cmd:"" group:"call" help:"Wait until a render is finished."`
	Watch    watchCmd    `cmd:"" group:"call" help:"Print each state change of renders."`
	Download downloadCmd `cmd:"" group:"call" help:"Write the result of a render to a file."`
	Delete   deleteCmd   `cmd:"" group:"call" help:"Delete a render and its result permanently."`

	Completion completionCmd `cmd:"" group:"more" help:"Print a completion script for bash, zsh or fish."`
	Version    versionCmd    `cmd:"" group:"more" help:"Show the version."`
	ExitCodes  exitCodesCmd  `cmd:"" group:"more" help:"Show the meanings of the exit codes."`
}

// Console returns a console that writes to the program's standard output and standard error.
func (p *Program) Console() *terminal.Console { return terminal.NewConsole(p.Stdout, p.Stderr, p.env) }

// env returns the value of an environment variable, or "" if it is unset.
func (p *Program) env(name string) string {
	text, _ := p.Lookup(name)
	return text
}

// Self returns the path with which the program was started, quoted for a shell. A relative path works only in the directory where
// the program was started.
func (p *Program) Self() string { return terminal.ShellQuote(cmp.Or(p.Name, "easel")) }

// Run runs a command line and returns the exit code. It prints the error of a failed command; commands do not print their errors
// themselves.
func Run(ctx context.Context, args []string, p *Program) int {
	err := p.runLine(ctx, args)
	if err == nil {
		return ExitOK
	}
	f := failureOf(ctx, err)
	if p.JSONErrors {
		writeJSONLine(p.Stderr, map[string]failure{"error": f})
	} else {
		f.write(p.Stderr)
	}
	return f.ExitCode
}

// runLine parses a command line and runs its command.
func (p *Program) runLine(ctx context.Context, args []string) error {
	env, helped := &environment{Program: p}, false
	parser, err := p.newParser(env, &helped)
	if err != nil {
		return err
	}
	args = commandFirst(parser, args)
	line, err := parser.Parse(args)
	switch {
	case helped:
		return nil
	case err != nil && strings.HasPrefix(args[0], "-"):
		return badUsage("there is no command with these flags: "+ShellLine(args), "See easel --help.")
	case err != nil:
		return usageError(line, err)
	}
	unknown := env.unknownNames()
	if faults := faultsOf(line, env); len(faults) > 0 {
		for _, name := range unknown { // a setting may be missing because its variable is misspelled
			faults = append(faults, ignoredWarning(name))
		}
		return badUsage(strings.Join(faults, "; "), "")
	}
	p.warnOfUnknown(line, unknown)
	p.line, p.connectionFlags = ShellLine(args), connectionFlags(line)
	return p.runCommand(ctx, line)
}

// newParser returns a parser for command lines. If a command line asks for help, the parser sets *isHelp to true.
func (p *Program) newParser(env *environment, isHelp *bool) (*kong.Kong, error) {
	return kong.New(p.Grammar.Commands(), append([]kong.Option{
		kong.Name("easel"), kong.Writers(p.Stdout, p.Stderr),
		kong.Vars{"addr": easel.DefaultAddress},
		kong.Bind(p),
		kong.Exit(func(int) { *isHelp = true }), // the parser calls the Exit function only after it has printed the help
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), kong.Help(printHelp), kong.ValueFormatter(env.describeFlag),
		kong.Resolvers(env), kong.PostBuild(env.recordVariables),
	}, p.Grammar.Options...)...)
}

// commandFirst converts "easel help generate" to "easel generate --help", "easel --version" to "easel version", and "easel
// --addr X account" to "easel account --addr X". In the last form, it moves the words before the command to the end. The
// command is the first word for which the parser accepts the resulting command line.
func commandFirst(k *kong.Kong, args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	case args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	case !strings.HasPrefix(args[0], "-"):
		return args
	}
	for i := range args {
		moved := slices.Concat(args[i:], args[:i])
		if trace, err := kong.Trace(k, moved); err == nil && trace.Error == nil && trace.Selected() != nil {
			return moved
		}
	}
	return args
}

// commandOf returns the command in a command line, with its flags, or nil if the line has no command.
func commandOf(line *kong.Context) any {
	if node := line.Selected(); node != nil && node.Target.CanAddr() {
		return node.Target.Addr().Interface()
	}
	return nil
}

// runCommand runs the command in a command line. If the command calls a server, runCommand opens a session for it and applies
// --timeout.
func (p *Program) runCommand(ctx context.Context, line *kong.Context) (err error) {
	var s *session
	if c, ok := commandOf(line).(interface{ flags() *callFlags }); ok {
		if s, err = c.flags().openSession(ctx, p); err != nil {
			return err
		}
		defer func() { _ = s.Close() }() // cancels running calls
		if limit := c.flags().Timeout; limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
	}
	line.Bind(s)
	line.BindTo(ctx, (*context.Context)(nil))
	if err := line.Run(line.Model); err != nil || s == nil {
		return err
	}
	return s.Err()
}

// faultsOf returns messages about invalid variables, flags and arguments. An empty flag is invalid, unless an environment
// variable can also set it. An empty value usually comes from an unset shell variable. For example, an empty
// --idempotency-key would silently create a new key.
func faultsOf(line *kong.Context, env *environment) []string {
	faults := env.faults
	for _, path := range line.Path {
		if path.Flag == nil || path.Resolved || env.names[path.Flag.Value] != "" {
			continue
		}
		if text, ok := line.FlagValue(path.Flag).(string); ok && text == "" {
			faults = append(faults, "--"+path.Flag.Name+" is empty; omit the flag to use its default")
		}
	}
	if c, ok := commandOf(line).(interface{ Faults() []string }); ok {
		faults = append(faults, c.Faults()...)
	}
	return faults
}

// usageError returns the error for a command line that can't be parsed.
func usageError(line *kong.Context, err error) error {
	path, text := "easel", err.Error()
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		line = parse.Context
	}
	if line != nil && line.Selected() != nil {
		path += " " + line.Selected().Path()
	}
	if flag, got, _ := strings.Cut(text, ": expected "); strings.HasSuffix(got, `got "EOL" (<EOL>)`) {
		text = flag + " needs a value"
	}
	text = strings.Replace(text, `one of "",`, "one of ", 1) // the empty value means the default, so the message does not list it
	return badUsage(text, "See "+path+" --help.")
}

//go:embed help.txt
var longHelp string

// LongHelp adds detailed help to commands: to client commands from help.txt, and to other commands from text. In both sources,
// each section starts with a line that consists of "# " and the name of the command.
func LongHelp(text string) kong.Option {
	sections := map[string]string{}
	for section := range strings.SplitSeq("\n"+longHelp+"\n"+text, "\n# ") {
		command, text, _ := strings.Cut(section, "\n")
		sections[command] = text
	}
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model.Node, func(node kong.Visitable, next kong.Next) error {
			if command, ok := node.(*kong.Command); ok && command.Detail == "" {
				command.Detail = sections[command.Path()]
			}
			return next(nil)
		})
	})
}

// printHelp prints the help of a command or of the whole program. The help of the program ends with the exit codes.
func printHelp(options kong.HelpOptions, line *kong.Context) error {
	err := kong.DefaultHelpPrinter(options, line)
	if err == nil && line.Selected() == nil {
		_, err = io.WriteString(line.Stdout, "\n"+exitCodes)
	}
	return err
}

// Build describes the build of the program.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

type versionCmd struct {
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"Format of the output: table or json."`
}

// Run prints the version.
func (c *versionCmd) Run(p *Program) error {
	b := p.Build
	if c.Output == "json" {
		writeJSONLine(p.Stdout, b)
		return nil
	}
	from := ""
	if b.Revision != "" {
		from = ", revision " + b.Revision[:min(12, len(b.Revision))]
	}
	_, err := fmt.Fprintf(p.Stdout, "easel %s (%s, %s%s)\n", b.Version, b.Go, b.Platform, from)
	return err
}
