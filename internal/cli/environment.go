package cli

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/easel-grpc/easel/internal/terminal"
)

// environment gives flags their values from environment variables. The parser could do
// it by itself, but only from the process, and it would stop at the first bad value.
//
// What the environment does not say, a profile may. One that is named on the command line
// comes before the environment.
type environment struct {
	*Program
	names  map[*kong.Value]string
	faults []string // every variable that does not hold what its flag takes
	looked bool     // for a profile
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
func (e *environment) Resolve(line *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	name := e.names[flag.Value]
	text := ""
	if name != "" {
		text = e.env(name)
	}
	if flag.Group != nil && flag.Group.Key == "connection" {
		e.lookForProfile(line)
		name, text = e.orProfile(flag.Name, name, text)
	}
	if text == "" {
		return nil, nil
	}
	if fault := misfitOf(flag.Value, text); fault != "" {
		e.faults = append(e.faults, fmt.Sprintf("%s: %q %s", name, text, fault))
		return nil, nil
	}
	return text, nil
}

// lookForProfile reads the profile that is named, or the default one, once.
func (e *environment) lookForProfile(line *kong.Context) {
	if e.looked {
		return
	}
	e.looked = true
	name, asked := e.env("EASEL_PROFILE"), false
	for _, path := range line.Path {
		if path.Flag != nil && path.Flag.Name == "profile" && !path.Resolved {
			name, asked = line.FlagValue(path.Flag).(string), true
		}
	}
	chosen, err := e.loadProfile(name)
	if err != nil {
		e.faults = append(e.faults, err.Error())
		return
	}
	if chosen != nil {
		chosen.asked = asked
	}
	e.profile = chosen
}

// orProfile gives the value of a flag of the connection, and where it is from.
func (e *environment) orProfile(flag, name, text string) (from, value string) {
	if e.profile == nil {
		return name, text
	}
	if flag == "api-key-file" && e.profile.asked && e.profile.hasKey() {
		return name, "" // the profile's key beats the environment's
	}
	value, says := e.profile.value(flag)
	if says && (text == "" || e.profile.asked) {
		return "profile " + e.profile.name + ", " + flag, value
	}
	return name, text
}

// misfitOf says why text is no value for a flag, or nothing where it is one.
func misfitOf(v *kong.Value, text string) string {
	if v.Enum != "" && !slices.Contains(v.EnumSlice(), text) {
		named := slices.DeleteFunc(v.EnumSlice(), func(word string) bool { return word == "" }) // that is none given
		return "is none of " + strings.Join(named, ", ")
	}
	scan := kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text})
	scratch := reflect.New(v.Target.Type()).Elem()
	if v.Mapper.Decode(&kong.DecodeContext{Value: v, Scan: scan}, scratch) == nil {
		return ""
	}
	if v.Target.Type() == reflect.TypeFor[time.Duration]() && text != "" && strings.Trim(text, "0123456789") == "" {
		return fmt.Sprintf("is not a duration: write %ss for seconds, or %sm for minutes", text, text)
	}
	return "is not " + kindOf(v.Target.Type())
}

// kindOf names what a flag takes, as a person would.
func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 500ms, 10s or 2m"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "a whole number"
	}
	return "a value that it takes"
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

// settingPrefix is how all variables of settings begin.
const settingPrefix = "EASEL_"

// What is read from the environment and is no flag.
const (
	apiKeyVariable     = "EASEL_API_KEY"
	configFileVariable = "EASEL_CONFIG_FILE"
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
	known := append(slices.Collect(maps.Values(e.names)), apiKeyVariable, configFileVariable)
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
		if strings.HasPrefix(short, "NATS_") {
			s.Suggestion = settingPrefix + "LEDGER_URL" // replicas share polls over the ledger; they did over NATS
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
	if node := line.Selected(); node != nil && node.Target.CanAddr() {
		if c, ok := node.Target.Addr().Interface().(interface {
			LogLater(unknown []UnknownVariable)
		}); ok {
			c.LogLater(unknown)
			return
		}
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

// IsLoopback reports whether a host is this machine and nothing else. No host is every
// address.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}
