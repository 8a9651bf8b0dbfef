package catalog

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// Value is one JSON value in canonical form (see [Canonical]). Nil means that there is no value.
type Value = json.RawMessage

// Canonical returns JSON in canonical form: without whitespace, with members sorted by name, and with numbers verbatim. If
// several members have the same name, the last one counts. Equal values have equal bytes. The text must be valid JSON.
func Canonical(text []byte) Value {
	canonical, _ := writer{}.appendValue(nil, JSON(bytes.TrimSpace(text)), false, math.MaxInt)
	return canonical
}

// extraOf returns the members of a record that were not read into other fields. It omits secrets, and values that are
// nested deeper than maxDepth.
func extraOf(r *Record) Value {
	members := slices.DeleteFunc(r.sent.Members(), func(m Member) bool { return r.hasTaken(m.Name) })
	extra, _ := writer{keep: true}.object(nil, members, false, maxDepth+1)
	if len(extra) == len("{}") {
		return nil
	}
	return extra
}

// writer writes values in canonical form. If redactor is set, it redacts the API key. If keep is true, the output is stored in
// a field Extra. In this case, the writer omits each secret, together with the member or the array that directly contains it.
// It also omits values that are nested too deeply.
type writer struct {
	keep     bool
	redactor *redactor
}

// appendValue appends v to a buffer. If v must be omitted, or is nested more deeply than depth, appendValue appends nothing and
// returns false. isInKey is true if v is inside an object that describes an API key. If w.keep is also true, members that may
// contain the API key itself are omitted.
func (w writer) appendValue(to []byte, v JSON, isInKey bool, depth int) (_ []byte, ok bool) {
	switch v.Kind() {
	case '"':
		text := unquoted(string(v))
		if w.keep && isSuspicious(text) {
			return to, false
		}
		return appendText(to, w.redactor.redactKey(text)), true
	case '[':
		return w.array(to, v, isInKey, depth)
	case '{':
		return w.object(to, v.Members(), isInKey, depth)
	}
	return append(to, v...), true
}

func (w writer) array(to []byte, v JSON, isInKey bool, depth int) (_ []byte, ok bool) {
	begin, items := len(to), 0
	to, ok = append(to, '['), depth > 0
	v.EachItem(func(item JSON) bool {
		if items++; items > 1 {
			to = append(to, ',')
		}
		if ok {
			to, ok = w.appendValue(to, item, isInKey, depth-1)
		}
		return ok
	})
	if !ok {
		return to[:begin], false
	}
	return append(to, ']'), true
}

func (w writer) object(to []byte, members []Member, isInKey bool, depth int) (_ []byte, ok bool) {
	begin := len(to)
	to = append(to, '{')
	for _, m := range members {
		end := len(to)
		if end > begin+1 {
			to = append(to, ',')
		}
		if to, ok = w.member(to, m, isInKey, depth-1); !ok {
			to = to[:end]
		}
		if !ok && !w.keep && w.redactor == nil {
			return to[:begin], false
		}
	}
	if depth <= 0 {
		return to[:begin], false
	}
	return append(to, '}'), true
}

func (w writer) member(to []byte, m Member, ofKey bool, depth int) (_ []byte, ok bool) {
	if w.redactor.holdsKey(m.Name) {
		return to, false
	}
	if w.keep {
		switch key := keyOf(m.Name); {
		case m.Value.Kind() == '{' && keyNames[key]:
			ofKey = true
		case secretNames[key] || ofKey && keySecretNames[key] || isSuspicious(m.Name):
			return to, false
		}
	}
	return w.appendValue(append(appendText(to, m.Name), ':'), m.Value, ofKey, depth)
}

// appendText appends a string in the encoding of encoding/json, without HTML escapes.
func appendText(to []byte, text string) []byte {
	if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
		buffer := bytes.NewBuffer(to)
		encoder := json.NewEncoder(buffer)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(text) // cannot fail for a string
		return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
	}
	return append(append(append(to, '"'), text...), '"')
}
