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

// environment gives flags their values from environment variables. The parser could do
// it by itself, but only from the process, and it would stop at the first bad value.
type environment struct {
	*Program
	names  map[*kong.Value]string
	faults []string // every variable that does not hold what its flag takes
}

// takeOver notes which variable belongs to which flag, and takes them from the parser.
func (e *environment) takeOver(k *kong.Kong) error {
	e.names = map[*kong.Value]string{}
	return kong.Visit(k.Model.Node, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && len(flag.Tag.Envs) > 0 {
			e.names[flag.Value] = flag.Tag.Envs[0]
			flag.Tag.Envs = nil
		}
		return next(nil)
	})
}

// Validate has nothing to check before the flags are known.
func (e *environment) Validate(*kong.Application) error { return nil }

// Resolve gives the value of a flag that is not on the command line. A set but empty
// variable counts as unset, as in most compose files.
func (e *environment) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	name := e.names[flag.Value]
	text := e.env(name)
	if name == "" || text == "" {
		return nil, nil
	}
	if fault := misfitOf(flag.Value, text); fault != "" {
		e.faults = append(e.faults, name+": "+fault)
		return nil, nil
	}
	return text, nil
}

// misfitOf says why text is no value for a flag, or nothing where it is one.
func misfitOf(v *kong.Value, text string) string {
	if v.Enum != "" && !slices.Contains(v.EnumSlice(), text) {
		named := slices.DeleteFunc(v.EnumSlice(), func(word string) bool { return word == "" }) // that is none given
		return fmt.Sprintf("must be one of %s but got %q", strings.Join(named, ", "), text)
	}
	scan := kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text})
	if err := v.Mapper.Decode(&kong.DecodeContext{Value: v, Scan: scan}, reflect.New(v.Target.Type()).Elem()); err != nil {
		return err.Error()
	}
	return ""
}

// describe is the help of a flag, with its variable and its default.
func (e *environment) describe(v *kong.Value) string {
	var facts []string
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

const (
	settingPrefix  = "EASEL_"        // begins the name of every setting
	apiKeyVariable = "EASEL_API_KEY" // is no flag
)

// UnknownVariable is a variable that looks like a setting and is none: most likely it is misspelt. What
// it holds is told to nobody, because it may be a key.
type UnknownVariable struct {
	Name       string
	Suggestion string // the setting most like it, "" where none is
}

// String says so in half a sentence.
func (s UnknownVariable) String() string {
	if s.Suggestion == "" {
		return s.Name + " is no setting, and is ignored"
	}
	return s.Name + " is no setting, and is ignored: did you mean " + s.Suggestion + "?"
}

// unknownVariables are the variables that begin like a setting and that no command reads.
func (e *environment) unknownVariables() []UnknownVariable {
	if e.Environ == nil {
		return nil
	}
	known := append(slices.Collect(maps.Values(e.names)), apiKeyVariable)
	slices.Sort(known) // of two that are as like, always the same is meant
	for i := range known {
		known[i] = strings.TrimPrefix(known[i], settingPrefix) // or all would be like each other
	}
	var all []UnknownVariable
	for _, setting := range e.Environ() {
		name, value, _ := strings.Cut(setting, "=")
		short, ours := strings.CutPrefix(name, settingPrefix)
		if !ours || value == "" || slices.Contains(known, short) || ofKubernetes.MatchString(setting) {
			continue
		}
		s := UnknownVariable{Name: terminal.OneLine(name)}
		if meant := closest(short, known); meant != "" {
			s.Suggestion = settingPrefix + meant
		}
		all = append(all, s)
	}
	return all
}

// ofKubernetes matches what Kubernetes tells each pod of a Service whose name begins with easel.
var ofKubernetes = regexp.MustCompile(`^EASEL_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=` +
	`|^EASEL_(\w+_)?PORT=(tcp|udp|sctp)://`)

// warnOfUnknown warns of them: by the logger of a command that has one, else in a line each, which
// is JSON where errors are.
func (p *Program) warnOfUnknown(line *kong.Context, unknown []UnknownVariable) {
	if c, ok := commandOf(line).(interface{ LogLater([]UnknownVariable) }); ok {
		c.LogLater(unknown)
		return
	}
	for _, s := range unknown {
		if p.JSONErrors {
			writeJSONLine(p.Stderr, map[string]string{"warning": s.String()})
		} else {
			_, _ = io.WriteString(p.Stderr, terminal.Sanitize("easel: "+s.String()+"\n")) // the command runs, whether or not anybody reads
		}
	}
}

// FaultList collects what is wrong, so that all of it is told at once.
type FaultList []string

// Add adds a sentence.
func (l *FaultList) Add(text string) { *l = append(*l, terminal.OneLine(text)) }

// AddError adds what is wrong with a setting, where something is.
func (l *FaultList) AddError(name string, err error) {
	if err != nil {
		l.Add(fmt.Sprintf("%s: %v", name, err))
	}
}

// Require adds a sentence unless something holds.
func (l *FaultList) Require(ok bool, text string) {
	if !ok {
		l.Add(text)
	}
}
