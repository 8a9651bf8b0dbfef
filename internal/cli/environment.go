package cli

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/easel-grpc/easel/internal/terminal"
)

// environment sets flags from environment variables. The parser's own support for variables is not used, because it reads only
// the variables of the process and stops at the first invalid value.
type environment struct {
	*Program
	names  map[*kong.Value]string // environment variable of each flag
	faults []string               // messages about variables with invalid values
}

// recordVariables records the environment variable of each flag, and hides the variable from the parser.
func (e *environment) recordVariables(k *kong.Kong) error {
	e.names = map[*kong.Value]string{}
	return kong.Visit(k.Model.Node, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && len(flag.Tag.Envs) > 0 {
			e.names[flag.Value], flag.Tag.Envs = flag.Tag.Envs[0], nil
		}
		return next(nil)
	})
}

// Validate implements kong.Resolver.
func (e *environment) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a flag's environment variable. The parser calls it only for flags that are not on the command
// line. An empty variable counts as unset. If the value is invalid, Resolve adds a message to e.faults
// and returns nil.
func (e *environment) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	name := e.names[flag.Value]
	text := e.env(name)
	if name == "" || text == "" {
		return nil, nil
	}
	if fault := misfitReason(flag.Value, text); fault != "" {
		e.faults = append(e.faults, name+": "+fault)
		return nil, nil
	}
	return text, nil
}

// misfitReason returns the reason why a flag does not accept a text, or "" if the flag accepts the text.
func misfitReason(v *kong.Value, text string) string {
	if v.Enum != "" && !slices.Contains(v.EnumSlice(), text) {
		return fmt.Sprintf("must be one of %s but got %q", strings.Join(namedValues(v), ", "), text)
	}
	scan := kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text})
	if err := v.Mapper.Decode(&kong.DecodeContext{Value: v, Scan: scan}, reflect.New(v.Target.Type()).Elem()); err != nil {
		return err.Error()
	}
	return ""
}

// namedValues returns the allowed values of a flag, without the empty value.
func namedValues(v *kong.Value) []string {
	return slices.DeleteFunc(v.EnumSlice(), func(value string) bool { return value == "" })
}

// describeFlag returns a flag's help text, followed by its environment variable and its default value.
func (e *environment) describeFlag(v *kong.Value) string {
	facts := []string{}
	if name := e.names[v]; name != "" {
		facts = append(facts, "$"+name)
	}
	if v.HasDefault && v.Default != "" {
		facts = append(facts, "default "+v.Default)
	}
	if len(facts) == 0 {
		return v.Help
	}
	return v.Help + " (" + strings.Join(facts, ", ") + ")"
}

// apiKeyVariable is the environment variable that contains the API key. There is no flag for the API key, because other
// processes can see the flags of a process.
const apiKeyVariable = "EASEL_API_KEY"

// unknownNames returns the names of environment variables that begin with EASEL_ but that no command reads, most likely because
// they are misspelled. It does not return their values, which may be secret.
func (e *environment) unknownNames() (names []string) {
	if e.Environ == nil {
		return nil
	}
	known := append(slices.Collect(maps.Values(e.names)), apiKeyVariable)
	for _, setting := range e.Environ() {
		name, value, _ := strings.Cut(setting, "=")
		if strings.HasPrefix(name, "EASEL_") && value != "" && !slices.Contains(known, name) && !kubernetes.MatchString(setting) {
			names = append(names, terminal.OneLine(name))
		}
	}
	return names
}

// kubernetes matches the variables that Kubernetes sets in each pod for a Service whose name begins with easel.
var kubernetes = regexp.MustCompile(`^EASEL_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=` +
	`|^EASEL_(\w+_)?PORT=(tcp|udp|sctp)://`)

// ignoredWarning returns a warning about an unknown variable.
func ignoredWarning(name string) string { return name + " is an unknown setting and is ignored" }

// warnOfUnknown reports unknown environment variables. If the command has a logger, the command logs them later. Otherwise,
// warnOfUnknown prints a line for each variable.
func (p *Program) warnOfUnknown(line *kong.Context, names []string) {
	if c, ok := commandOf(line).(interface{ LogLater(names []string) }); ok {
		c.LogLater(names)
		return
	}
	for _, name := range names {
		if p.JSONErrors {
			writeJSONLine(p.Stderr, map[string]string{"warning": ignoredWarning(name)})
		} else {
			_, _ = io.WriteString(p.Stderr, "easel: "+ignoredWarning(name)+"\n") // the command runs even if the warning can't be written
		}
	}
}

// FaultList collects problems with settings and flags, so that all of them are reported together.
type FaultList []string

// Add adds a problem with the given description.
func (l *FaultList) Add(text string) { *l = append(*l, terminal.OneLine(text)) }

// AddError adds an error about the setting or flag with the given name. A nil error is ignored.
func (l *FaultList) AddError(name string, err error) {
	if err != nil {
		l.Add(fmt.Sprintf("%s: %v", name, err))
	}
}

// Require adds a problem with the given description, unless isMet is true.
func (l *FaultList) Require(isMet bool, text string) {
	if !isMet {
		l.Add(text)
	}
}
