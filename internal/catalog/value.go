package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Value is one JSON value in its canonical form, see [Canonical]. Nil is no value.
type Value = json.RawMessage

// Canonical returns JSON as encoding/json writes it after decoding: without space, members sorted by name, of two members
// with the same name the last one, and numbers digit for digit. Equal values have equal bytes. The text must be valid.
func Canonical(text []byte) Value { return encoded(JSON(text).decoded()) }

// decoded returns a value as encoding/json decodes it, with each number as a [json.Number].
func (v JSON) decoded() (value any) {
	switch kind := v.kind(); {
	case kind == '"':
		return unquoted(string(v))
	case v.isNumber():
		return json.Number(v)
	case kind == 't' || kind == 'f':
		return kind == 't'
	}
	decoder := json.NewDecoder(strings.NewReader(string(v)))
	decoder.UseNumber()
	_ = decoder.Decode(&value) // it is valid
	return value
}

// encoded returns a decoded value as JSON.
func encoded(value any) Value {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // it was decoded from JSON
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// isShallow reports whether arrays and objects are nested at most to a depth.
func isShallow(value any, depth int) bool {
	isDeep := func(inner any) bool { return !isShallow(inner, depth-1) }
	switch value := value.(type) {
	case []any:
		return depth > 0 && !slices.ContainsFunc(value, isDeep)
	case map[string]any:
		return depth > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(value)), isDeep)
	}
	return true
}

// extraOf returns the remaining members of a record: those that were not taken, without secrets, and nested up
// to maxDepth.
func extraOf(r *Record) Value {
	extra := map[string]any{}
	for _, m := range r.sent.Members() {
		if r.hasTaken(m.Name) {
			continue
		}
		if kept, ok := keptMember(m.Name, m.Value.decoded(), false, maxDepth); ok {
			extra[m.Name] = kept
		}
	}
	if len(extra) == 0 {
		return nil
	}
	return encoded(extra)
}

// keptMember returns a member without secrets, unless it is one. An object that describes an API key, which may have its
// daily cap, is kept without the members that may be the API key itself: ofKey is true inside such an object.
func keptMember(name string, value any, ofKey bool, depth int) (kept any, ok bool) {
	_, isObject := value.(map[string]any)
	switch key := keyOf(name); {
	case isObject && keyNames[key]:
		ofKey = true
	case secretNames[key] || ofKey && keySecretNames[key] || suspicious(name):
		return nil, false
	}
	return keptValue(value, ofKey, depth)
}

// keptValue returns a value without secrets. An array with a secret is not kept.
func keptValue(value any, ofKey bool, depth int) (kept any, ok bool) {
	switch value := value.(type) {
	case string:
		return value, !suspicious(value)
	case []any:
		for n := range value {
			if value[n], ok = keptValue(value[n], ofKey, depth-1); !ok {
				return nil, false
			}
		}
		return value, depth > 0
	case map[string]any:
		for name, inner := range value {
			if value[name], ok = keptMember(name, inner, ofKey, depth-1); !ok {
				delete(value, name)
			}
		}
		return value, depth > 0
	}
	return value, true
}
