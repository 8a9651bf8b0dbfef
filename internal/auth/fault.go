package auth

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v3"

	"github.com/easel-grpc/easel/deploy"
)

// Fault is an error in a callers file. Its text never quotes a value from the file, because the file may contain a token by
// mistake. It quotes the name of an unknown member only if [memberName] matches it.
type Fault struct {
	Line int
	Text string
}

// Faults contains all errors in a callers file, in the order of its lines.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for n, fault := range f {
		lines[n] = fmt.Sprintf("line %d: %s", fault.Line, fault.Text)
	}
	return strings.Join(lines, "; ")
}

// schema returns the schema of the callers file. The first call compiles it.
var schema = sync.OnceValue(func() *jsonschema.Schema {
	const name = "callers.schema.json"
	source, err := jsonschema.UnmarshalJSON(bytes.NewReader(deploy.CallersSchema))
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err = cmp.Or(err, compiler.AddResource(name, source)); err != nil {
		panic(err) // cannot happen, because the schema is part of the program
	}
	return compiler.MustCompile(name)
})

// memberName matches text that may be a misspelled member name. A token is longer or contains other characters, so it does not
// match.
var memberName = regexp.MustCompile(`^[a-z_]{1,24}$`)

var (
	yamlError = regexp.MustCompile(`(?s)^(?:yaml: )?(?:unmarshal errors:\s+)?(?:line ([0-9]+): )?(.*)$`)
	quotation = regexp.MustCompile("(?s)['\"`].*['\"`]") // matches the quoted part of a YAML error, which may be text from the file
)

// addFaults adds a fault for each problem that an error from [parser.decodeFile] reports.
func (p *parser) addFaults(err error) {
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		p.addValueFaults(invalid)
		return
	}
	parts := yamlError.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(parts[1])
	p.faults = append(p.faults, Fault{max(1, line), "invalid YAML: " + quotation.ReplaceAllString(parts[2], "…")})
}

// addValueFaults adds a fault for each violation of the schema. The fault for an invalid value contains the schema's
// description of that value.
func (p *parser) addValueFaults(invalid *jsonschema.ValidationError) {
	path := strings.Join(invalid.InstanceLocation, "/")
	switch k := invalid.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference:
		for _, cause := range invalid.Causes {
			p.addValueFaults(cause)
		}
	case *kind.Required:
		p.addFault(path, "%s is missing; add it", strings.Join(k.Missing, ", "))
	case *kind.AdditionalProperties:
		parent, _ := findSchema(invalid.InstanceLocation)
		members := strings.Join(slices.Sorted(maps.Keys(parent.Properties)), ", ")
		for _, name := range k.Properties {
			quoted := ""
			if memberName.MatchString(name) {
				quoted = " " + name
			}
			p.addFault(strings.TrimPrefix(path+"/"+name, "/"), "unknown member%s; the members here are %s", quoted, members)
		}
	case *kind.PropertyNames: // only team names can cause this violation, so the path is known; InstanceLocation is unreliable here
		_, rule := findSchema([]string{"teams"})
		p.addFault("teams/"+k.Property, "%s", rule)
	default:
		_, rule := findSchema(invalid.InstanceLocation)
		p.addFault(path, "%s", rule)
	}
}

// findSchema returns the schema of the value at a path, and a message for an invalid value. The message contains the
// description of the value. If the value has no description, it contains that of the nearest enclosing value with a
// description.
func findSchema(path []string) (s *jsonschema.Schema, rule string) {
	s = schema()
	name, text := "file", s.Description
	for _, step := range path {
		switch member := s.Properties[step]; {
		case member != nil:
			s, name = member, step
		case s.Items2020 != nil:
			s = s.Items2020
		default:
			s = s.AdditionalProperties.(*jsonschema.Schema) // the value belongs to the name of a team, or of a label that has a budget
		}
		target := cmp.Or(s.Ref, s)
		text = cmp.Or(s.Description, target.Description, text)
		s = target
	}
	return s, "wrong " + name + ": " + strings.TrimSuffix(text, ".")
}

// addFault adds a fault for the value at a path. The path consists of member names and list indexes, separated by slashes.
func (p *parser) addFault(path, format string, args ...any) {
	p.faults = append(p.faults, Fault{lineOf(&p.root, strings.Split(path, "/")), fmt.Sprintf(format, args...)})
}

// lineOf returns the line of the value at a path. If the file does not contain this value, lineOf returns the line of the
// nearest enclosing value.
func lineOf(n *yaml.Node, path []string) int {
	switch n.Kind {
	case yaml.AliasNode:
		return lineOf(n.Alias, path)
	case yaml.DocumentNode:
		return lineOf(n.Content[0], path)
	}
	for i, child := range n.Content {
		isItem := n.Kind == yaml.SequenceNode && len(path) > 0 && path[0] == strconv.Itoa(i)
		isMember := n.Kind == yaml.MappingNode && len(path) > 0 && i%2 == 1 && n.Content[i-1].Value == path[0]
		if isItem || isMember {
			return lineOf(child, path[1:])
		}
	}
	return max(1, n.Line)
}
