package catalog

import (
	"slices"
	"strings"
)

var modelWeights = []weight{{names: modelIDNames, score: 2}, {names: fieldListNames, score: 1, nested: true}}

// readModels reads the list of models. An entry may consist of just an ID. Entries without an ID are skipped. If all entries
// lack an ID, readModels returns an error.
func readModels(a answer) ([]Model, error) {
	items, err := a.list(modelListNames, modelWeights)
	if err != nil {
		return nil, err
	}
	models := make([]Model, 0, len(items))
	for _, item := range items {
		item = a.redactor.redact(item)
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
		return nil, a.malformedError("no model in the list has a readable ID")
	}
	return models, nil
}

// readModel reads one model. The input fields may be inside the model's record, or next to it in the body.
func readModel(a answer, requestedID string) (Model, error) {
	value, err := a.parseBody()
	if err != nil {
		return Model{}, err
	}
	r, ok := unwrap(value, modelWrappers, modelWeights)
	if !ok || r.score(modelWeights) == 0 {
		return Model{}, a.malformedError("no model record in the body")
	}
	m, _ := newModel(a, r, requestedID)
	if top, ok := NewRecord(value); ok && len(m.Fields) == 0 {
		m.Fields, _ = takeMember(top, fieldListNames, readFields)
	}
	return m, nil
}

// newModel creates a model from a record. If the record has no ID, the model gets the requested ID.
func newModel(a answer, r *Record, requestedID string) (Model, bool) {
	id, ok := takeMember(r, modelIDNames, asID)
	if !ok {
		id = requestedID
	}
	if id == "" {
		return Model{}, false
	}
	m := Model{ID: id, ObserveTime: a.time}
	m.Name, _ = takeMember(r, modelNameNames, AsWord)
	m.Description, _ = takeMember(r, descriptionNames, AsWord)
	m.Output, _, _ = find(r, outputNames, outputKind) // find leaves the word in Extra, because a word such as "video" is more specific than OutputFile
	m.Fields, _ = takeMember(r, fieldListNames, readFields)
	m.Extra = extraOf(r)
	return m, true
}

// outputKind reads the kind of output from a string, from a list that contains only the string, or from an object that has
// the string as a member.
func outputKind(v JSON) (OutputKind, bool) {
	switch v.Kind() {
	case '[':
		if items, _ := v.Items(); len(items) == 1 {
			return outputKind(items[0])
		}
	case '{':
		r, _ := NewRecord(v)
		kind, _, ok := find(r, outputNames, outputWord)
		return kind, ok
	}
	return outputWord(v)
}

// outputWord reads the kind of output from a string such as "text-to-image". If several words name a kind, outputWord uses the
// last one, because the first ones may describe the input. In a media type, it uses only the part before the slash.
func outputWord(v JSON) (OutputKind, bool) {
	s, _ := AsText(v)
	s, _, _ = strings.Cut(strings.ToLower(s), "/")
	words := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("_- 2>", r) })
	for _, word := range slices.Backward(words) {
		if kind, ok := outputKinds[word]; ok {
			return kind, true
		}
	}
	return OutputUnknown, false
}

// readFields reads input fields: a list of descriptions or names, an object keyed by name, or a JSON schema. The members of an
// object have no order. For an object or a schema, readFields therefore returns required fields first.
func readFields(v JSON) ([]InputField, bool) {
	if items, ok := v.Items(); ok {
		return fieldList(items)
	}
	r, ok := NewRecord(v)
	if !ok {
		return nil, false
	}
	if properties, _, ok := find(r, propertiesNames, plainObject); ok {
		required, _, isList := find(r, requiredNames, JSON.Items)
		return fieldObject(properties, required, isList)
	}
	return fieldObject(v, nil, false)
}

// plainObject returns v, and true if v is an object.
func plainObject(v JSON) (JSON, bool) { return v, v.Kind() == '{' }

func fieldList(items []JSON) ([]InputField, bool) {
	fields := make([]InputField, 0, len(items))
	for _, item := range items {
		if name, ok := AsWord(item); ok {
			fields = append(fields, InputField{Name: name})
			continue
		}
		r, ok := NewRecord(item)
		if !ok {
			return nil, false
		}
		name, ok := takeMember(r, fieldNameNames, AsWord)
		if !ok {
			return nil, false
		}
		fields = append(fields, newField(r, name))
	}
	return fields, true
}

// fieldObject reads an object that maps the name of each input field to its description, or only to its type. If hasRequired is
// true, requiredNames contains the names of the required fields. It is used only for fields whose own description does not
// state whether they are required. Required fields are returned first.
func fieldObject(v JSON, requiredNames []JSON, hasRequired bool) ([]InputField, bool) {
	var first, others []InputField
	for _, m := range v.Members() {
		if kind, ok := AsWord(m.Value); ok {
			m.Value = withMember("type", kind, "{}")
		}
		r, ok := NewRecord(m.Value)
		if !ok {
			return nil, false
		}
		field := newField(r, m.Name)
		if hasRequired && field.Required == nil {
			field.Required = new(slices.ContainsFunc(requiredNames, func(v JSON) bool { name, ok := AsText(v); return ok && name == m.Name }))
		}
		if field.Required != nil && *field.Required {
			first = append(first, field)
		} else {
			others = append(others, field)
		}
	}
	return append(first, others...), true
}

func newField(r *Record, name string) InputField {
	f := InputField{Name: name}
	f.DisplayName, _ = takeMember(r, fieldLabelNames, AsWord)
	f.Description, _ = takeMember(r, descriptionNames, AsWord)
	f.Type = takeFieldType(r)
	f.Required = takeRequired(r)
	f.Default, _ = takeMember(r, defaultNames, asValue)
	f.Allowed = takeAllowed(r)
	if f.Type == FieldInteger || f.Type == FieldNumber || f.Type == FieldUnknown { // the minimum and maximum of other types, such as strings, limit the length
		f.Minimum = optionalPointer(takeMember(r, minimumNames, asFloat))
		f.Maximum = optionalPointer(takeMember(r, maximumNames, asFloat))
	}
	f.Extra = extraOf(r)
	return f
}

var plainTypes = [...]string{
	FieldString: "string", FieldInteger: "integer", FieldNumber: "number",
	FieldBoolean: "boolean", FieldObject: "object", FieldArray: "array",
}

// takeFieldType reads the type of an input field from its description. A word that is more specific than the type, such as
// "textarea", is also stored in Extra.
func takeFieldType(r *Record) FieldType {
	kind, by, ok := find(r, fieldTypeNames, fieldType)
	if !ok {
		return FieldUnknown
	}
	if word, _ := AsText(by.value); word == plainTypes[kind] {
		by.taken = true
	}
	return kind
}

// fieldType reads a field type: a word, or a list that contains one word and possibly "null". It returns FieldUnknown and false
// for any other value.
func fieldType(v JSON) (FieldType, bool) {
	if list, ok := v.Items(); ok {
		list = slices.DeleteFunc(list, func(v JSON) bool { word, _ := AsText(v); return word == "null" })
		if len(list) != 1 {
			return FieldUnknown, false
		}
		v = list[0]
	}
	word, _ := AsText(v)
	kind, ok := fieldTypes[strings.ToLower(strings.TrimSpace(word))]
	return kind, ok
}

func takeRequired(r *Record) *bool {
	if required, ok := takeMember(r, requiredNames, asBool); ok {
		return &required
	}
	not, ok := takeMember(r, optionalNames, asBool)
	return optionalPointer(!not, ok)
}

// takeAllowed reads the allowed values of an input field from its description. If the values have labels, the list is also
// stored in Extra.
func takeAllowed(r *Record) []Value {
	values, ok := takeMember(r, allowedNames, valuesBy(plainValue))
	if !ok {
		values, _, _ = find(r, allowedNames, valuesBy(func(v JSON) (Value, bool) {
			labelled, _ := NewRecord(v)
			value, _, ok := find(labelled, allowedValueNames, plainValue)
			return value, ok
		}))
	}
	return values
}

// valuesBy returns a function that reads a list by calling readValue for each item. The returned function returns false if the
// list is empty, or if readValue returns false for an item.
func valuesBy(readValue func(JSON) (Value, bool)) func(JSON) ([]Value, bool) {
	return func(v JSON) (values []Value, ok bool) {
		items, _ := v.Items()
		for _, item := range items {
			value, ok := readValue(item)
			if !ok {
				return nil, false
			}
			values = append(values, value)
		}
		return values, len(values) > 0
	}
}

// plainValue reads a value that is not an object or an array.
func plainValue(v JSON) (Value, bool) {
	return Canonical([]byte(v)), v.Kind() != '{' && v.Kind() != '['
}
