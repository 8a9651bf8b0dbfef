package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/rawjson"
)

var modelWeights = []weight{{names: modelIDNames, score: 2}, {names: fieldListNames, score: 1, nested: true}}

// readModels reads the list of models. An entry may be a mere id; one without an id is
// passed over as long as others have one.
func readModels(a answer) ([]Model, error) {
	items, err := a.list(modelListNames, modelWeights)
	if err != nil {
		return nil, err
	}
	models := make([]Model, 0, len(items))
	for _, item := range items {
		item = a.item(item)
		if id, ok := asID(item); ok {
			models = append(models, Model{ID: id, ObserveTime: a.time})
			continue
		}
		r, ok := unwrap(item, modelWrappers, modelWeights)
		if !ok {
			continue
		}
		if m, ok := newModel(a, r, ""); ok {
			models = append(models, m)
		}
	}
	if len(models) == 0 && len(items) > 0 {
		return nil, a.malformed("no model of the list has a readable identifier")
	}
	return models, nil
}

// readModel reads one model. Its input fields may stand beside the record.
func readModel(a answer, requestedID string) (Model, error) {
	value, err := a.decode()
	if err != nil {
		return Model{}, err
	}
	r, ok := unwrap(value, modelWrappers, modelWeights)
	if !ok || r.score(modelWeights) == 0 {
		return Model{}, a.malformed("no record of a model")
	}
	m, _ := newModel(a, r, requestedID)
	if top, ok := newRecord(value); ok && len(m.Fields) == 0 {
		m.Fields, _ = take(top, fieldListNames, readFields)
	}
	return m, nil
}

// newModel reads a record. A record without an id gets the requested one.
func newModel(a answer, r record, requestedID string) (Model, bool) {
	id, ok := take(r, modelIDNames, asID)
	if !ok {
		id = requestedID
	}
	if id == "" {
		return Model{}, false
	}
	m := Model{ID: id, ObserveTime: a.time}
	m.Name, _ = take(r, modelNameNames, asWord)
	m.Description, _ = take(r, descriptionNames, asWord)
	m.Output, _, _ = find(r, outputNames, outputKind) // stays in Extra: "video" says more than "file"
	m.Fields, _ = take(r, fieldListNames, readFields)
	m.Extra = extraOf(r)
	return m, true
}

// outputKind reads the kind of output from a word, a list of one, or an object that has
// the word.
func outputKind(value any) (OutputKind, bool) {
	if word, ok := value.(string); ok {
		return outputWord(word)
	}
	if items, ok := asArray(value); ok && len(items) == 1 {
		return outputKind(items[0])
	}
	r, _ := newRecord(value)
	kind, _, ok := find(r, outputNames, func(inner any) (OutputKind, bool) {
		word, _ := inner.(string)
		return outputWord(word)
	})
	return kind, ok
}

// outputWord reads the last known word, since the first ones name the input. Of a media
// type it reads the first half.
func outputWord(s string) (OutputKind, bool) {
	s, _, _ = strings.Cut(strings.ToLower(s), "/")
	words := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("_- 2>", r) })
	for _, word := range slices.Backward(words) {
		if kind, ok := outputKinds[word]; ok {
			return kind, true
		}
	}
	return OutputUnknown, false
}

// readFields reads input fields: a list of descriptions or of mere names, an object keyed
// by name, or a JSON schema. An object has no order; its required fields come first.
func readFields(value any) ([]InputField, bool) {
	if items, ok := asArray(value); ok {
		return fieldList(items)
	}
	r, ok := newRecord(value)
	if !ok {
		return nil, false
	}
	if properties, _, ok := find(r, propertiesNames, asObject); ok {
		required, _, _ := find(r, requiredNames, asArray)
		return fieldObject(properties, required)
	}
	return fieldObject(r.members, nil)
}

func fieldList(items []any) ([]InputField, bool) {
	fields := make([]InputField, 0, len(items))
	for _, item := range items {
		if name, ok := asWord(item); ok {
			fields = append(fields, InputField{Name: name})
			continue
		}
		r, ok := newRecord(item)
		if !ok {
			return nil, false
		}
		name, ok := take(r, fieldNameNames, asWord)
		if !ok {
			return nil, false
		}
		fields = append(fields, newField(r, name))
	}
	return fields, true
}

// fieldObject reads fields keyed by name. A member may be a mere type.
func fieldObject(members map[string]any, required []any) ([]InputField, bool) {
	fields := make([]InputField, 0, len(members))
	for name, member := range members {
		if kind, ok := asWord(member); ok {
			member = map[string]any{"type": kind}
		}
		r, ok := newRecord(member)
		if !ok {
			return nil, false
		}
		field := newField(r, name)
		if required != nil && field.Required == nil {
			must := slices.Contains(required, any(name))
			field.Required = &must
		}
		fields = append(fields, field)
	}
	slices.SortFunc(fields, func(x, y InputField) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.Name, y.Name))
	})
	return fields, true
}

func rank(f InputField) int {
	if f.Required != nil && *f.Required {
		return 0
	}
	return 1
}

func newField(r record, name string) InputField {
	f := InputField{Name: name}
	f.DisplayName, _ = take(r, fieldLabelNames, asWord)
	f.Description, _ = take(r, descriptionNames, asWord)
	f.Type = takeFieldType(r)
	f.Required = takeRequired(r)
	f.Default, _ = take(r, defaultNames, func(v any) (rawjson.Value, bool) {
		text := encoded(v)
		return bytes.Clone(text), v != nil && rawjson.Depth(text) < maxDepth
	})
	f.Allowed = takeAllowed(r)
	if f.Type == FieldInteger || f.Type == FieldNumber || f.Type == FieldUnknown { // of others it bounds the length
		f.Minimum = optional(take(r, minimumNames, asFloat))
		f.Maximum = optional(take(r, maximumNames, asFloat))
	}
	f.Extra = extraOf(r)
	return f
}

var plainTypes = [...]string{
	FieldString: "string", FieldInteger: "integer", FieldNumber: "number",
	FieldBoolean: "boolean", FieldObject: "object", FieldArray: "array",
}

// takeFieldType reads the type. A word that says more than the type, such as
// "textarea", stays among the unknown members.
func takeFieldType(r record) FieldType {
	kind, name, ok := find(r, fieldTypeNames, fieldType)
	if !ok {
		return FieldUnknown
	}
	if word, _ := r.get(name); word == plainTypes[kind] {
		r.drop(name)
	}
	return kind
}

// fieldType reads a word, or the one in a list that is not null.
func fieldType(value any) (FieldType, bool) {
	if list, ok := asArray(value); ok {
		list = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == "null" })
		if len(list) != 1 {
			return FieldUnknown, false
		}
		value = list[0]
	}
	word, _ := value.(string)
	kind, ok := fieldTypes[strings.ToLower(strings.TrimSpace(word))]
	return kind, ok
}

func takeRequired(r record) *bool {
	if required, ok := take(r, requiredNames, as[bool]); ok {
		return &required
	}
	not, ok := take(r, optionalNames, as[bool])
	return optional(!not, ok)
}

// takeAllowed reads the allowed values. Where they have labels, the whole list stays
// among the unknown members too.
func takeAllowed(r record) []rawjson.Value {
	if plain, ok := take(r, allowedNames, plainValues); ok {
		return plain
	}
	labelled, _, _ := find(r, allowedNames, func(v any) ([]rawjson.Value, bool) {
		items, _ := asArray(v)
		values := make([]rawjson.Value, 0, len(items))
		for _, item := range items {
			inner, ok := newRecord(item)
			if !ok {
				return nil, false
			}
			value, _, ok := find(inner, allowedValueNames, func(v any) (any, bool) { return v, isScalar(v) })
			if !ok {
				return nil, false
			}
			values = append(values, encoded(value))
		}
		return values, len(values) > 0
	})
	return labelled
}

func plainValues(value any) (plain []rawjson.Value, ok bool) {
	items, _ := asArray(value)
	for _, item := range items {
		if !isScalar(item) {
			return nil, false
		}
		plain = append(plain, encoded(item))
	}
	return plain, len(plain) > 0
}

func isScalar(value any) bool {
	switch value.(type) {
	case string, json.Number, bool, nil:
		return true
	}
	return false
}
