package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	maxExact = 1 << 53 // highest integer up to which a float64 represents every integer exactly
	// maxDepth is the maximum nesting depth of Extra. Some protobuf runtimes reject messages with much deeper nesting.
	maxDepth = 24
)

var byteOrderMark = []byte("\uFEFF")

// JSON is a JSON value as the catalog sent it: a substring of the body. Its methods decode it on demand.
type JSON string

// parse checks that a body is exactly one JSON value, and returns the value.
func parse(body []byte) (JSON, error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark))
	if !json.Valid(body) {
		return "", errors.New("the body is not a single JSON value")
	}
	return JSON(body), nil
}

// Kind returns the first byte of the value, or 0 if there is no value.
func (v JSON) Kind() byte {
	if v == "" {
		return 0
	}
	return v[0]
}

// IsNull reports whether the value is missing or null.
func (v JSON) IsNull() bool { return v.Kind() == 0 || v.Kind() == 'n' }

func (v JSON) isNumber() bool { return v.Kind() == '-' || v.Kind() >= '0' && v.Kind() <= '9' }

// Items returns the items of an array. ok is false if v is not an array.
func (v JSON) Items() (items []JSON, ok bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	v.EachItem(func(item JSON) bool { items = append(items, item); return true })
	return items, true
}

// EachItem calls fn for each item of an array. It stops if fn returns false.
func (v JSON) EachItem(fn func(JSON) bool) {
	gjson.Parse(string(v)).ForEach(func(_, item gjson.Result) bool { return fn(JSON(item.Raw)) })
}

// Member is a member of an object.
type Member struct {
	Name  string // name in the catalog's spelling
	Value JSON
}

// Members returns the members of an object, sorted by name. If two members have the same name, only the last one is returned.
func (v JSON) Members() (members []Member) {
	v.Each(func(m Member) { members = append(members, m) })
	slices.Reverse(members)
	slices.SortStableFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(members, func(a, b Member) bool { return a.Name == b.Name })
}

// Each calls fn for each member of an object, in the order in which the catalog sent the members.
func (v JSON) Each(fn func(Member)) {
	if v.Kind() != '{' {
		return
	}
	gjson.Parse(string(v)).ForEach(func(name, value gjson.Result) bool {
		fn(Member{unquoted(name.Raw), JSON(value.Raw)})
		return true
	})
}

// unquoted decodes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func unquoted(quoted string) string {
	text := quoted[1 : len(quoted)-1]
	if strings.IndexByte(text, '\\') >= 0 || !utf8.ValidString(text) {
		return unescaped(quoted)
	}
	return text
}

// unescaped decodes a JSON string with escapes. It is a separate function, so that strings without escapes need no allocation.
func unescaped(quoted string) (text string) {
	_ = json.Unmarshal([]byte(quoted), &text) // cannot fail for valid JSON
	return text
}

// Text decodes a JSON string. The result may share memory with the body of the response.
func (v JSON) Text() (text string, ok bool) {
	if v.Kind() != '"' {
		return "", false
	}
	return unquoted(string(v)), true
}

// AsText decodes a JSON string. The result does not share memory with the body of the response.
func AsText(v JSON) (string, bool) {
	text, ok := v.Text()
	return strings.Clone(text), ok
}

// AsWord decodes a JSON string and trims surrounding white space. It returns false if v is not a string, or if the trimmed string
// is empty.
func AsWord(v JSON) (string, bool) {
	s, _ := AsText(v)
	s = strings.TrimSpace(s)
	return s, s != ""
}

// asID reads an ID: a string verbatim, or an integer with its exact digits.
func asID(v JSON) (string, bool) {
	if v.isNumber() {
		return strings.Clone(string(v)), !strings.ContainsAny(string(v), ".eE")
	}
	s, _ := AsText(v)
	return s, strings.TrimSpace(s) != ""
}

// asInteger reads an integer from 0 to 2^53, such as a number of cents or bytes. It rejects strings, because a string may be in
// another unit.
func asInteger(v JSON) (int64, bool) {
	n, err := strconv.ParseUint(string(v), 10, 64)
	return int64(n), err == nil && n <= maxExact
}

func asFloat(v JSON) (float64, bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil && v.isNumber()
}

func asBool(v JSON) (is, ok bool) { return v.Kind() == 't', v.Kind() == 't' || v.Kind() == 'f' }

// asValue reads any value except null.
func asValue(v JSON) (Value, bool) {
	if v.IsNull() {
		return nil, false
	}
	return writer{}.appendValue(nil, v, false, maxDepth-1)
}

// asObject returns v in canonical form. It returns nil and false if v is not an object.
func asObject(v JSON) (Value, bool) {
	if v.Kind() != '{' {
		return nil, false
	}
	return asValue(v)
}

// asTime reads a time in one of timeLayouts, or a Unix time. The year must be between 1970 and 9999.
func asTime(v JSON) (time.Time, bool) {
	if v.isNumber() {
		return unixTime(string(v))
	}
	s, ok := AsWord(v)
	if !ok {
		return time.Time{}, false
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			t = t.UTC()
			return t, t.Year() >= 1970 && t.Year() <= 9999
		}
	}
	return unixTime(s)
}

func unixTime(digits string) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(digits, 64)
	if seconds >= 1e11 { // 1e11 seconds is in the year 5138, and 1e11 milliseconds is in the year 1973
		seconds /= 1000
	}
	if err != nil || !(seconds > 0 && seconds < 1e11) {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC(), true
}

// appendFolded appends a name in lower case and without separators, so that costCents, cost_cents and Cost-Cents are equal.
func appendFolded(dst []byte, name string) []byte {
	for _, c := range []byte(name) {
		switch {
		case c == '_' || c == '-' || c == ' ':
			continue
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// Fold returns the name in lower case, without underscores, dashes and spaces.
func Fold(name string) string { return string(appendFolded(nil, name)) }

// known contains each name in the tables, in the form that [Fold] returns. It maps each form to itself, so that keyOf can
// return the form without allocating memory.
var known = map[string]string{}

// foldNames applies [Fold] to each element of list, adds the results to known, and returns list.
func foldNames(list ...string) []string {
	for i, name := range list {
		list[i] = Fold(name)
		known[list[i]] = list[i]
	}
	return list
}

// keyOf is like [Fold], but returns "" if no table contains the name.
func keyOf(name string) string {
	var folded [64]byte
	return known[string(appendFolded(folded[:0], name))]
}

func set(list []string) map[string]bool {
	members := make(map[string]bool, len(list))
	for _, name := range list {
		members[name] = true
	}
	return members
}
