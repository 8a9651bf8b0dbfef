package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
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
	if fault := unfit(flag.Value, text); fault != "" {
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

// unfit says why text is no value for a flag, or nothing where it is one.
func unfit(v *kong.Value, text string) string {
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
