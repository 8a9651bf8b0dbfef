package main

import (
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// settingPrefix is how all variables of settings begin.
const settingPrefix = "EASEL_"

// What is read from the environment and is no flag.
const (
	apiKeyVariable     = "EASEL_API_KEY"
	configFileVariable = "EASEL_CONFIG_FILE"
)

// stray is a variable that looks like a setting and is none: most likely it is misspelt. What
// it holds is told to nobody, because it may be a key.
type stray struct {
	name  string
	meant string // the setting most like it, "" where none is
}

// String says so in half a sentence.
func (s stray) String() string {
	if s.meant == "" {
		return s.name + " is no setting, and is ignored"
	}
	return s.name + " is no setting, and is ignored: did you mean " + s.meant + "?"
}

// strays are the variables that begin like a setting and that no command reads.
func (e *environment) strays() []stray {
	if e.environ == nil {
		return nil
	}
	known := append(slices.Collect(maps.Values(e.names)), apiKeyVariable, configFileVariable)
	slices.Sort(known) // of two that are as like, always the same is meant
	for i := range known {
		known[i] = strings.TrimPrefix(known[i], settingPrefix) // or all would be like each other
	}
	var all []stray
	for _, setting := range e.environ() {
		name, value, _ := strings.Cut(setting, "=")
		short, ours := strings.CutPrefix(name, settingPrefix)
		if !ours || value == "" || slices.Contains(known, short) || ofKubernetes.MatchString(setting) {
			continue
		}
		s := stray{name: oneLine(name)}
		if meant := nearest(short, known); meant != "" {
			s.meant = settingPrefix + meant
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
func (p *program) tellStrays(line *kong.Context, strays []stray) {
	if node := line.Selected(); node != nil && node.Target.CanAddr() {
		if c, ok := node.Target.Addr().Interface().(interface{ toLog(strays []stray) }); ok {
			c.toLog(strays)
			return
		}
	}
	for _, s := range strays {
		if p.jsonErrors {
			writeJSONLine(p.stderr, map[string]string{"warning": s.String()})
		} else {
			_, _ = io.WriteString(p.stderr, harmless("easel: "+s.String()+"\n")) // the command runs, whether or not anybody reads
		}
	}
}

// toLog keeps strays until there is a logger.
func (f *tuningFlags) toLog(strays []stray) { f.strays = strays }

// logStrays warns of them.
func (f *tuningFlags) logStrays(logger *slog.Logger) {
	for _, s := range f.strays {
		attrs := []any{"variable", s.name}
		if s.meant != "" {
			attrs = append(attrs, "did_you_mean", s.meant)
		}
		logger.Warn("a variable of the environment is no setting, and is ignored", attrs...)
	}
}
