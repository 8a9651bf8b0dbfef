package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Fault is a fault of a callers file. It never quotes the file, which may contain a token by mistake.
type Fault struct {
	Line int
	Text string
}

// Faults are all faults of a callers file, in the order of its lines.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for n, fault := range f {
		lines[n] = fmt.Sprintf("line %d: %s", fault.Line, fault.Text)
	}
	return strings.Join(lines, "; ")
}

var lineOfYAML = regexp.MustCompile(`line ([0-9]+): `)

// document reads a YAML file with a single document, and collects the faults.
type document struct {
	faults Faults
	lines  map[string]int // line of each name that must be unique, such as "caller billing"
}

// member is a member that a mapping may have.
type member struct {
	name     string
	read     func(*yaml.Node)
	required bool
}

// form is a condition for a string. must describes the condition in messages: "NAME must ...".
type form struct {
	must string
	fits func(string) bool
}

func (d *document) fault(at *yaml.Node, format string, args ...any) {
	d.faults = append(d.faults, Fault{max(1, at.Line), fmt.Sprintf(format, args...)})
}

// root returns the root of the document, or nil without one.
func (d *document) root(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		d.fault(&first, "the file is empty: callers is missing")
		return nil
	case err != nil:
		d.syntax(text, err)
		return nil
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		d.fault(&second, "a second document starts here; the file must have only one")
	case !errors.Is(err, io.EOF):
		d.syntax(text, err)
	}
	return first.Content[0]
}

// syntax adds an error of the YAML library as a fault. The error for an alias without an anchor quotes the file and has no line.
// Therefore syntax replaces it.
func (d *document) syntax(text []byte, err error) {
	problem, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if found := lineOfYAML.FindStringSubmatch(problem); found != nil {
		line, _ = strconv.Atoi(found[1])
		problem = strings.Replace(problem, found[0], "", 1)
	}
	if alias, ok := strings.CutPrefix(problem, "unknown anchor '"); ok {
		before, _, _ := bytes.Cut(text, []byte("*"+strings.TrimSuffix(alias, "' referenced")))
		problem, line = "an alias has no anchor", 1+bytes.Count(before, []byte("\n"))
	}
	d.fault(&yaml.Node{Line: line}, "invalid YAML: %s", problem)
}

// pairs returns the names and values of a mapping. It reports false if the node is not a mapping. Names must be unique.
func (d *document) pairs(n *yaml.Node, what string) (pairs [][2]*yaml.Node, ok bool) {
	if n = target(n); n.Kind != yaml.MappingNode {
		d.fault(n, "%s must be a mapping, with lines of the form name: value", what)
		return nil, false
	}
	lines := map[string]int{}
	for pair := range slices.Chunk(n.Content, 2) {
		name := target(pair[0])
		if line, twice := lines[name.Value]; twice {
			d.fault(pair[0], "this name is in line %d already", line)
		}
		lines[name.Value] = name.Line
		if _, ok := d.textOf(name, "a name", anyText); ok {
			pairs = append(pairs, [2]*yaml.Node{name, pair[1]})
		}
	}
	return pairs, true
}

// mapping reads the members of a mapping in the order of known.
func (d *document) mapping(n *yaml.Node, what string, known ...member) {
	pairs, ok := d.pairs(n, what)
	values, names := map[string]*yaml.Node{}, make([]string, len(known))
	for i, m := range known {
		names[i] = m.name
	}
	for _, pair := range pairs {
		if values[pair[0].Value] = pair[1]; !slices.Contains(names, pair[0].Value) {
			d.fault(pair[0], "%s has no member of this name; it may have %s", what, strings.Join(names, ", "))
		}
	}
	for _, m := range known {
		if value := values[m.name]; value != nil {
			m.read(value)
		} else if ok && m.required {
			d.fault(n, "%s is missing: %s must have it", m.name, what)
		}
	}
}

// items returns a function that calls read for each item of a list.
func (d *document) items(what string, read func(*yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n = target(n); n.Kind != yaml.SequenceNode {
			d.fault(n, "%s must be a list", what)
			return
		}
		for _, item := range n.Content {
			read(item)
		}
	}
}

// texts returns a function that calls read for each string of a list. Items that do not match the form are faults.
func (d *document) texts(what, item string, form form, read func(at *yaml.Node, text string)) func(*yaml.Node) {
	return d.items(what, func(n *yaml.Node) {
		if text, ok := d.textOf(n, item, form); ok {
			read(n, text)
		}
	})
}

// text returns a function that stores a string, even if it does not match the form, which is a fault.
func (d *document) text(into *string, what string, form form) func(*yaml.Node) {
	return func(n *yaml.Node) { *into, _ = d.textOf(n, what, form) }
}

// textOf returns the string of a node, and reports whether it matches the form.
func (d *document) textOf(n *yaml.Node, what string, form form) (text string, ok bool) {
	if n = target(n); n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.fault(n, "%s must be text; put it in quotes", what)
		return "", false
	}
	if !form.fits(n.Value) {
		d.fault(n, "%s must %s", what, form.must)
		return n.Value, false
	}
	return n.Value, true
}

// scalar returns a function that stores a value of one of the YAML types. A value of another type, or one for which fits returns
// false, is a fault with the message rule.
func scalar[T any](d *document, into *T, rule string, fits func(T) bool, types ...string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		var value T
		if n = target(n); n.Kind != yaml.ScalarNode || !slices.Contains(types, n.ShortTag()) || n.Decode(&value) != nil || !fits(value) {
			d.fault(n, "%s", rule)
			return
		}
		*into = value
	}
}

// once records a name or a credential, and reports whether it is new. A repeated one is a fault.
func (d *document) once(at *yaml.Node, kind, name string) bool {
	line, found := d.lines[kind+" "+name]
	if found {
		d.fault(at, "this %s is in line %d already, and must be unique", kind, line)
		return false
	}
	d.lines[kind+" "+name] = at.Line
	return true
}

// target returns the node that an alias refers to, or the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
