package catalog

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	maxViolations     = 16
	maxViolationText  = 200 // bytes of a field or of its description
	maxViolationDepth = 4
)

// readViolations collects the fields that an error names, in the shapes that the
// tables of rules.go know. list is the folded name of the member that holds value, ""
// for the error itself.
func (c *errorBody) readViolations(value any, list string, depth int) {
	if depth > maxViolationDepth {
		return
	}
	switch v := value.(type) {
	case string:
		if namesFields(list) {
			c.violate(v, "")
		}
	case []any:
		for _, item := range v {
			c.readViolations(item, list, depth+1)
		}
	case map[string]any:
		if r, ok := newRecord(v); ok {
			c.readViolationRecord(r, list, depth)
		}
	}
}

// namesFields reports whether the plain texts of a list are names of fields.
func namesFields(list string) bool {
	return list == "fields" || list == "invalidfields" || list == "invalidparams" || list == "params"
}

// readViolationRecord reads an object: about one field, or holding lists, or keyed by
// the names of fields.
func (c *errorBody) readViolationRecord(r record, list string, depth int) {
	fieldNames := violationFields
	if list == "" { // there, "name" and "path" are about the error or the request
		fieldNames = ownFieldNames
	}
	if field, name, ok := find(r, fieldNames, fieldPath); ok {
		r.drop(name)
		description, _, _ := find(r, violationTexts, word)
		c.violate(field, description)
		return
	}
	found := len(c.violations)
	for _, names := range [][]string{violationLists, anyErrorWrapper} {
		for _, name := range names {
			if member, ok := r.get(name); ok {
				inner := name
				if list == "" && slices.Contains(anyErrorWrapper, name) {
					inner = ""
				}
				c.readViolations(member, inner, depth+1)
			}
		}
	}
	if len(c.violations) == found && slices.Contains(keyedByField, list) {
		c.readKeyed(r)
	}
}

// readKeyed reads {"prompt":"too long"} and {"prompt":["too long"]}.
func (c *errorBody) readKeyed(r record) {
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		if slices.Contains(notFieldNames, fold(name)) {
			continue
		}
		if description, ok := fieldText(r.members[name]); ok {
			c.violate(name, description)
		}
	}
}

func fieldText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return word(v)
	case []any:
		if len(v) > 0 {
			return fieldText(v[0])
		}
	case map[string]any:
		if r, ok := newRecord(v); ok {
			description, _, ok := find(r, violationTexts, word)
			return description, ok
		}
	}
	return "", false
}

// fieldPath reads the name of a field: a text, or a list of steps.
func fieldPath(value any) (string, bool) {
	steps, ok := value.([]any)
	if !ok {
		return word(value)
	}
	parts := make([]string, 0, len(steps))
	for _, step := range steps {
		switch s := step.(type) {
		case string:
			parts = append(parts, s)
		case json.Number:
			parts = append(parts, s.String())
		}
	}
	return word(strings.Join(parts, "."))
}

// violate adds a violation once.
func (c *errorBody) violate(field, description string) {
	v := Violation{
		Field:       clamp(c.redactor.clean(contractField(c.op, field)), maxViolationText),
		Description: clamp(c.redactor.clean(description), maxViolationText),
	}
	same := func(other Violation) bool { return other.Field == v.Field }
	if len(c.violations) < maxViolations && !slices.ContainsFunc(c.violations, same) {
		c.violations = append(c.violations, v)
	}
}

// bracketed is a step such as [prompt] or ["prompt"]; [0] stays as it is.
var bracketed = regexp.MustCompile(`\[["']?([^\]"'0-9][^\]"']*)["']?\]`)

// contractField is the name that callers know a field of the catalog by.
func contractField(op, field string) string {
	field = bracketed.ReplaceAllString(strings.TrimSpace(field), ".$1")
	steps := strings.Split(strings.ReplaceAll(field, "/", "."), ".")
	for len(steps) > 1 && slices.Contains(pathPrefixes, fold(steps[0])) {
		steps = steps[1:]
	}
	first := fold(steps[0])
	takesInputs := op == opQuote || op == opCreate
	switch {
	case len(steps) > 1 && slices.Contains(inputsFieldNames, first):
		return "inputs." + strings.Join(steps[1:], ".")
	case len(steps) == 1 && slices.Contains(modelFieldNames, first), op == opModel && first == "id":
		return "model_id"
	case len(steps) == 1 && slices.Contains(orderKeyNames, first):
		return "idempotency_key"
	case len(steps) == 1 && slices.Contains(inputsFieldNames, first):
		return "inputs"
	case takesInputs:
		return "inputs." + strings.Join(steps, ".")
	case first == "id":
		return "generation_id"
	}
	return strings.Join(steps, ".")
}
