// Package cli is the command line: the commands that a person types against a server, how they are
// drawn, and how flags, variables, errors and exit codes work for all commands.
//
// Each command is a struct whose fields are its flags and whose Run does the work. What runs is a
// [Program] with its own streams and environment, so that a test has the real thing without a process.
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
	"time"

	"github.com/alecthomas/kong"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/terminal"
)

// Program is one run of the command: what it reads, where it writes.
type Program struct {
	Name           string // as it was called, "" where nobody knows
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(name string) (string, bool) // the environment

	// Environ lists the environment, each as name=value. Nil means that nobody looks for what is misspelt.
	Environ func() []string

	// Dial replaces the network of client commands. Nil means the real one.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	Grammar Grammar
	Build   Build // which program this is

	JSONErrors bool // errors leave as JSON, because the output does

	connectionFlags string // the flags of the connection, as they were given
}

// Grammar is what a command line may say.
type Grammar struct {
	Commands func() any    // makes the struct whose fields are the commands, for one parse
	Options  []kong.Option // beside those that every command line has
}

// Commands are the commands that a person types against a server, and what belongs to them.
type Commands struct {
	Account  accountCmd  `cmd:"" group:"call" help:"Show the balance, and the budgets of your team."`
	Usage    usageCmd    `cmd:"" group:"call" help:"Count what was ordered and spent."`
	Models   modelsCmd   `cmd:"" group:"call" help:"List the models."`
	Model    modelCmd    `cmd:"" group:"call" help:"Show one model and the inputs that it takes."`
	Quote    quoteCmd    `cmd:"" group:"call" help:"Price a render. Starts and costs nothing."`
	Generate generateCmd `cmd:"" group:"call" help:"Order a render. Costs money, once."`
	Get      getCmd      `cmd:"" group:"call" help:"Show one render."`
	List     listCmd     `cmd:"" group:"call" help:"List the recent renders."`
	Wait     waitCmd     `cmd:"" group:"call" help:"Wait until a render is finished."`
	Watch    watchCmd    `cmd:"" group:"call" help:"Tell each change of renders as it comes."`
	Download downloadCmd `cmd:"" group:"call" help:"Write the result of a render to a file."`
	Delete   deleteCmd   `cmd:"" group:"call" help:"Delete a render and its result for good."`

	Completion completionCmd `cmd:"" group:"more" help:"Print a script that makes bash, zsh or fish complete this command."`
	Version    versionCmd    `cmd:"" group:"more" help:"Show the version."`
	ExitCodes  exitCodesCmd  `cmd:"" group:"more" help:"Show what the exit codes mean."`
}

// Console is where results and remarks go.
func (p *Program) Console() *terminal.Console { return terminal.NewConsole(p.Stdout, p.Stderr, p.env) }

// env reads a variable; unset and empty are the same.
func (p *Program) env(name string) string {
	text, _ := p.Lookup(name)
	return text
}

// Self is how this program is called again from the same place.
func (p *Program) Self() string {
	return terminal.ShellQuote(cmp.Or(p.Name, "easel"))
}

// Run does what args say and returns the exit code. It is the one place that prints an error.
func Run(ctx context.Context, args []string, p *Program) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	err := p.do(ctx, commandFirst(args))
	if err == nil {
		return ExitOK
	}
	f := explain(ctx, err)
	if p.JSONErrors {
		writeJSONLine(p.Stderr, map[string]failure{"error": f})
	} else {
		console := p.Console()
		f.write(p.Stderr, console.WidthOf(console.ErrStyle))
	}
	return f.ExitCode
}

// commandFirst turns "easel help generate" into "easel generate --help", and "easel --version" into "easel version".
func commandFirst(args []string) []string {
	switch {
	case args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	case args[0] != "help":
		return args
	case len(args) > 1 && args[1] == "exit-codes":
		return []string{"exit-codes"}
	}
	return append(args[1:len(args):len(args)], "--help")
}

// grammar is the parser of command lines. A flag that is not given has the value of its
// variable, and helped is set where the line has asked for help alone.
func (p *Program) grammar(env *environment, helped *bool) (*kong.Kong, error) {
	return kong.New(p.Grammar.Commands(), append([]kong.Option{
		kong.Name("easel"),
		kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(int) { *helped = true }), // called by --help alone
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(env.describe),
		kong.Help(printHelp),
		kong.Resolvers(env),
		kong.PostBuild(env.takeOver),
		kong.Vars{"addr": easel.DefaultAddress},
		kong.Bind(p),
	}, p.Grammar.Options...)...)
}

// do parses args and runs the command that they name.
func (p *Program) do(ctx context.Context, args []string) error {
	helped := false
	env := &environment{Program: p}
	parser, err := p.grammar(env, &helped)
	if err != nil {
		return err
	}
	if args[0] == completionCommand {
		return p.complete(parser.Model, args[1:])
	}
	args, found := flagsLast(parser.Model.Node, args)
	if !found && strings.HasPrefix(args[0], "-") && !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		return badUsage("there is no command in "+ShellLine(args), "Name one, such as easel models, or see easel --help.")
	}
	line, err := parser.Parse(args)
	if helped {
		return nil
	}
	if err != nil {
		return usage(line, err)
	}
	unknown := env.unknownVariables()
	faults := append(env.faults, emptyFlags(line, env)...)
	if c, ok := commandOf(line).(interface{ Faults() []string }); ok {
		faults = append(faults, c.Faults()...)
	}
	if len(faults) > 0 {
		for _, s := range unknown { // what is missing may be there under another name
			faults = append(faults, s.String())
		}
		return &Problem{Exit: ExitUsage, Text: strings.Join(faults, "; ")}
	}
	p.warnOfUnknown(line, unknown)
	p.connectionFlags = connectionFlagsOf(line)
	return p.run(ctx, line)
}

// commandOf is the command that was named, with its flags. It is nil where none was.
func commandOf(line *kong.Context) any {
	if node := line.Selected(); node != nil && node.Target.CanAddr() {
		return node.Target.Addr().Interface()
	}
	return nil
}

// run does what a command line says. A command that calls a server has a session, for as long as it may take.
func (p *Program) run(ctx context.Context, line *kong.Context) error {
	var s *session
	c, calls := commandOf(line).(interface {
		open(ctx context.Context, p *Program) (*session, error)
		limit() time.Duration
	})
	if calls {
		var err error
		if s, err = c.open(ctx, p); err != nil {
			return err
		}
		defer func() { _ = s.Close() }() // and whatever still runs on it
		if limit := c.limit(); limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
	}
	line.Bind(s)
	line.BindTo(ctx, (*context.Context)(nil))
	if err := line.Run(); err != nil || s == nil {
		return err
	}
	return s.Err()
}

// emptyFlags finds flags that were given without a text, most likely by a variable of the shell that is not set: an
// order must not get a new key because of that. A flag that is a setting, too, may be empty, as its variable may.
func emptyFlags(line *kong.Context, env *environment) (faults []string) {
	for _, path := range line.Path {
		if path.Flag == nil || path.Resolved || env.names[path.Flag.Value] != "" {
			continue
		}
		if text, ok := line.FlagValue(path.Flag).(string); ok && text == "" {
			faults = append(faults, "--"+path.Flag.Name+" is empty; leave it out where none is meant")
		}
	}
	return faults
}

// usage is the error of a command line that can't be understood.
func usage(line *kong.Context, err error) error {
	path := "easel"
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		line = parse.Context
	}
	if line != nil && line.Selected() != nil {
		path = "easel " + line.Selected().Path()
	}
	text := err.Error()
	if flag, got, _ := strings.Cut(text, ": expected "); strings.HasSuffix(got, `got "EOL" (<EOL>)`) {
		text = flag + " needs a value"
	}
	return &Problem{Exit: ExitUsage, Text: text, Cure: "See " + path + " --help."}
}

// flagsLast moves the flags before a command behind it: easel --addr X account becomes easel account --addr X. It reports
// whether there is a command.
func flagsLast(node *kong.Node, args []string) (moved []string, found bool) {
	for i, word := range args {
		if child := childNamed(node, word); child != nil && areFlags(child, args[:i]) {
			rest, _ := flagsLast(child, slices.Concat(args[:i], args[i+1:]))
			return append([]string{word}, rest...), true
		}
	}
	return args, false
}

// areFlags reports whether words are complete flags of a command or of the commands below it, with their values.
func areFlags(node *kong.Node, words []string) bool {
	for len(words) > 0 {
		name, _, hasValue := strings.Cut(strings.TrimLeft(words[0], "-"), "=")
		if !strings.HasPrefix(words[0], "-") {
			return false
		}
		words = words[1:]
		switch flag := flagBelow(node, name); {
		case flag == nil || flag.IsBool() || hasValue:
		case len(words) == 0:
			return false // the command would be its value
		case !strings.HasPrefix(words[0], "-"):
			words = words[1:]
		}
	}
	return true
}

// flagBelow returns the flag of a command or of a command below it, nil if there is none.
func flagBelow(node *kong.Node, name string) *kong.Flag {
	flag := flagNamed(node, name)
	for _, child := range node.Children {
		flag = cmp.Or(flag, flagBelow(child, name))
	}
	return flag
}

//go:embed help.txt
var longHelp string

// LongHelp says more of commands below their help: of the client's, and of those in text. There each section begins with
// "# " and the command.
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

// printHelp prints the usual help, and below that of the whole program its exit codes.
func printHelp(options kong.HelpOptions, line *kong.Context) error {
	err := kong.DefaultHelpPrinter(options, line)
	if err == nil && line.Selected() == nil {
		_, err = io.WriteString(line.Stdout, "\n"+exitCodes)
	}
	return err
}

// Build says which program this is.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

type versionCmd struct {
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json."`
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
