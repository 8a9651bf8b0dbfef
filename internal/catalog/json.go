package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/rawjson"
)

const (
	maxExact = 1 << 53 // every integer up to here is exact as a double too
	// maxDepth is the deepest nesting of a member in Extra. The stubs of some languages refuse
	// messages that are nested much deeper.
	maxDepth = 24
)

var byteOrderMark = []byte("\uFEFF")

const jsonSpace = " \t\r\n"

// JSON is a JSON value as it was sent, a part of its body. It is decoded where it is read, and nowhere else: what nobody
// reads, such as inputs, never is.
type JSON []byte

// parse takes a body that is one JSON value.
func parse(body []byte) (JSON, error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark))
	if json.Valid(body) {
		return body, nil
	}
	if len(body) == 0 {
		return nil, errors.New("the body is empty")
	}
	first := json.NewDecoder(bytes.NewReader(body))
	if err := first.Decode(new(json.RawMessage)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return nil, errors.New("the body has more than one JSON value")
}

// kind is the first byte of a value, 0 where there is none.
func (v JSON) kind() byte {
	if len(v) == 0 {
		return 0
	}
	return v[0]
}

// IsNull reports whether there is no value, or null.
func (v JSON) IsNull() bool { return v.kind() == 0 || v.kind() == 'n' }

func (v JSON) isNumber() bool { return v.kind() == '-' || v.kind() >= '0' && v.kind() <= '9' }

func (v JSON) isScalar() bool { return v.kind() != '{' && v.kind() != '[' }

// Items are the items of an array.
func (v JSON) Items() (items []JSON, ok bool) {
	if v.kind() != '[' {
		return nil, false
	}
	cursor := rawjson.NewCursor(v)
	cursor.Items(func() bool {
		items = append(items, cursor.Skip())
		return true
	})
	return items, true
}

// Member is a member of an object.
type Member struct {
	Name  string // as it was sent
	Value JSON
}

// Members are the members of an object in the order of their names; of two of one name the last one counts.
func (v JSON) Members() (members []Member) {
	if v.kind() != '{' {
		return nil
	}
	cursor := rawjson.NewCursor(v)
	cursor.Members(func(quoted []byte) bool {
		members = append(members, Member{string(rawjson.Inner(quoted)), cursor.Skip()})
		return true
	})
	slices.Reverse(members)
	slices.SortStableFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(members, func(a, b Member) bool { return a.Name == b.Name })
}

// asText reads a text.
func asText(v JSON) (string, bool) {
	if v.kind() != '"' {
		return "", false
	}
	return string(rawjson.Inner(v)), true
}

// AsWord reads a text that is not blank.
func AsWord(v JSON) (string, bool) {
	s, _ := asText(v)
	s = strings.TrimSpace(s)
	return s, s != ""
}

// asID reads an id: a string unchanged, or an integer digit for digit.
func asID(v JSON) (string, bool) {
	if v.isNumber() {
		return string(v), !bytes.ContainsAny(v, ".eE")
	}
	s, _ := asText(v)
	return s, strings.TrimSpace(s) != ""
}

// asInteger reads a number of cents or bytes: digits, and at most 2^53. It refuses a string,
// whose unit may be another.
func asInteger(v JSON) (int64, bool) {
	n, err := strconv.ParseUint(string(v), 10, 64)
	return int64(n), err == nil && n <= maxExact
}

func asFloat(v JSON) (float64, bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil && v.isNumber()
}

func asBool(v JSON) (is, ok bool) { return v.kind() == 't', v.kind() == 't' || v.kind() == 'f' }

// asValue takes a value as it is.
func asValue(v JSON) (rawjson.Value, bool) {
	if v.IsNull() || rawjson.Depth(v) >= maxDepth {
		return nil, false
	}
	return rawjson.Canonical(v), true
}

// asObject takes an object as it is.
func asObject(v JSON) (rawjson.Value, bool) {
	if v.kind() != '{' {
		return nil, false
	}
	return asValue(v)
}

// asTime reads a time in one of timeLayouts, from 1970 to 9999.
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
	if seconds >= 1e11 { // the year 5138 in seconds, 1973 in milliseconds
		seconds /= 1000
	}
	if err != nil || !(seconds > 0 && seconds < 1e11) {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC(), true
}

// appendFolded writes a name without its style: costCents, cost_cents and Cost-Cents are the same.
func appendFolded(dst, name []byte) []byte {
	for _, c := range name {
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

// Fold is a name without its style.
func Fold(name string) string { return string(appendFolded(nil, []byte(name))) }

// known are the names of all tables, by themselves.
var known = map[string]string{}

// names is a table of names, folded.
func names(list ...string) []string {
	for i, name := range list {
		list[i] = Fold(name)
		known[list[i]] = list[i]
	}
	return list
}

// keyOf is a name as the tables have it, "" where none does.
func keyOf(name []byte) string {
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
