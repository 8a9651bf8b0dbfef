// Package cli is the command line: the commands that a person types against a server, how they are
// drawn, and how flags, variables, profiles, errors and exit codes work for all commands.
//
// Each command is a struct whose fields are its flags and whose Run does the work. What runs is a
// [Program] with its own streams and environment, so that a test has the real thing without a process.
package cli

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

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

	// ConfigDir is where the user keeps settings. Nil means nowhere.
	ConfigDir func() (string, error)

	// Dial replaces the network of client commands. Nil means the real one.
	Dial Dialer

	Grammar Grammar
	Build   Build // which program this is

	JSONErrors bool // errors leave as JSON, because the output does

	keyFrom         string // where the key that was sent is from, "" where none was
	addr            string // where calls went
	profile         *profile
	args            []string // the command line
	connectionFlags string   // the flags of the connection, as they were given
	likelyModel     string   // that was meant where there is none of the name, "" where none is like it
	unsentKey       string   // the profile whose key was not sent, "" where there is none
}

// Grammar is what a command line may say.
type Grammar struct {
	Commands func() any          // makes the struct whose fields are the commands, for one parse
	Options  []kong.Option       // beside those that every command line has
	Values   map[string][]string // what completion offers for a flag, by its name, where no enum says it
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

	Profiles   profilesCmd   `cmd:"" group:"more" help:"List the servers and keys that a file keeps under a name."`
	Completion completionCmd `cmd:"" group:"more" help:"Print a script that makes bash, zsh or fish complete this command."`
	InputsOf   inputsOfCmd   `cmd:"" hidden:"" help:"Print the inputs of a model, for completion."`
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
	if p.Name == "" {
		return "easel"
	}
	return terminal.ShellQuote(p.Name)
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
	f.cure = p.fitted(f.cure)
	if p.JSONErrors {
		f.writeJSON(p.Stderr)
	} else {
		f.write(p.Stderr, p.errWidth())
	}
	return f.exit
}

// errWidth is the width of the terminal that errors go to, 0 where they go elsewhere.
func (p *Program) errWidth() int {
	console := p.Console()
	if !console.ErrStyle.Terminal {
		return 0
	}
	width, _ := console.Size()
	return width
}

// commandFirst turns "easel help generate" into "easel generate --help", and "easel --version" into
// "easel version".
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
// variable or of the profile, and helped is set where the line has asked for help alone.
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
		kong.Vars{"addr": defaultAddr},
		kong.Bind(p),
	}, p.Grammar.Options...)...)
}

// do parses args and runs the command that they name.
func (p *Program) do(ctx context.Context, args []string) error {
	p.args = args
	helped := false
	env := &environment{Program: p}
	parser, err := p.grammar(env, &helped)
	if err != nil {
		return err
	}
	if args[0] == completionCommand {
		return p.complete(ctx, parser.Model, args[1:])
	}
	line, err := parser.Parse(args)
	if helped {
		return nil
	}
	if err != nil {
		return usage(line, err)
	}
	unknown := env.unknownVariables()
	faults := append(append(env.faults, emptyFlags(line, env)...), settingFaults(line)...)
	if len(faults) > 0 {
		for _, s := range unknown { // what is missing may be there under another name
			faults = append(faults, s.String())
		}
		return &Problem{Exit: ExitUsage, Text: strings.Join(faults, "; ")}
	}
	p.warnOfUnknown(line, unknown)
	p.connectionFlags = connectionFlagsOf(line)
	line.BindTo(ctx, (*context.Context)(nil))
	return line.Run()
}

// settingFaults asks the command that was named what is wrong with its settings.
func settingFaults(line *kong.Context) []string {
	if node := line.Selected(); node != nil && node.Target.CanAddr() {
		if c, ok := node.Target.Addr().Interface().(interface{ Faults() []string }); ok {
			return c.Faults()
		}
	}
	return nil
}

// emptyFlags finds flags that were given without a text, most likely by a variable of the shell
// that is not set: an order must not get a new key because of that. A flag that is a setting,
// too, may be empty, as its variable may.
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
	text, cure := err.Error(), "See "+path+" --help."
	if parse != nil {
		text = misfitting(line, dashed(line, text))
	}
	if word, late := strings.CutPrefix(err.Error(), "unexpected argument "); late && strings.Contains(word, "=") {
		cure = "Inputs stand together, with the flags before or after all of them. " + cure
	}
	return &Problem{Exit: ExitUsage, Text: text, Cure: cure}
}

// dash is what the parser says of a value that it takes for a flag.
var dash = regexp.MustCompile(`^--([a-z-]+): expected .* but got "(-.*)" \((?:short|long) flag\)`)

// dashed says what is wrong with a value that begins with a dash: what its flag says of it, or else how
// such a value is written.
func dashed(line *kong.Context, text string) string {
	said := dash.FindStringSubmatch(text)
	if said == nil || line == nil {
		return text
	}
	name, value := said[1], said[2]
	for _, flag := range line.Flags() {
		reader, ok := reflect.New(flag.Target.Type()).Interface().(encoding.TextUnmarshaler)
		if flag.Name != name || !ok {
			continue
		}
		if err := reader.UnmarshalText([]byte(value)); err != nil {
			return "--" + name + ": " + err.Error()
		}
	}
	return fmt.Sprintf("--%s: %q looks like a flag; a value that begins with a dash is written --%s=%s", name, value, name, value)
}

// misfit is what the parser says of a duration that is none, or of a word that is none of a few.
var misfit = regexp.MustCompile(`^--([a-z-]+)(?:: expected duration| must be one of \S+) but got ("(?:[^"\\]|\\.)*")`)

// misfitting says what is wrong with a value as it is said of one from the environment.
func misfitting(line *kong.Context, text string) string {
	said := misfit.FindStringSubmatch(text)
	if said == nil || line == nil {
		return text
	}
	for _, flag := range line.Flags() {
		value, err := strconv.Unquote(said[2])
		if flag.Name != said[1] || err != nil {
			continue
		}
		if fault := misfitOf(flag.Value, value); fault != "" {
			return fmt.Sprintf("--%s: %q %s", flag.Name, value, fault)
		}
	}
	return text
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
