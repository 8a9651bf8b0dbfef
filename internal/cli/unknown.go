package cli

import (
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/easel-grpc/easel/internal/terminal"
)

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
	Name  string
	Meant string // the setting most like it, "" where none is
}

// String says so in half a sentence.
func (s UnknownVariable) String() string {
	if s.Meant == "" {
		return s.Name + " is no setting, and is ignored"
	}
	return s.Name + " is no setting, and is ignored: did you mean " + s.Meant + "?"
}

// strays are the variables that begin like a setting and that no command reads.
func (e *environment) strays() []UnknownVariable {
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
		if meant := nearest(short, known); meant != "" {
			s.Meant = settingPrefix + meant
		}
		all = append(all, s)
	}
	return all
}

// ofKubernetes matches what Kubernetes tells each pod of a Service whose name begins with easel.
var ofKubernetes = regexp.MustCompile(`^EASEL_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=` +
	`|^EASEL_(\w+_)?PORT=(tcp|udp|sctp)://`)

// tellStrays warns of them: by the logger of a command that has one, else in a line each, which
// is JSON where errors are.
func (p *Program) tellStrays(line *kong.Context, strays []UnknownVariable) {
	if node := line.Selected(); node != nil && node.Target.CanAddr() {
		if c, ok := node.Target.Addr().Interface().(interface {
			LogLater(unknown []UnknownVariable)
		}); ok {
			c.LogLater(strays)
			return
		}
	}
	for _, s := range strays {
		if p.JSONErrors {
			writeJSONLine(p.Stderr, map[string]string{"warning": s.String()})
		} else {
			_, _ = io.WriteString(p.Stderr, terminal.Sanitize("easel: "+s.String()+"\n")) // the command runs, whether or not anybody reads
		}
	}
}
