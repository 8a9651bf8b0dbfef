package catalog

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/easel-grpc/easel/internal/rawjson"
)

const (
	maxExact = 1 << 53 // every integer up to here is exact as a double too
	// maxDepth is the deepest nesting of a member in Extra. The stubs of some languages refuse
	// messages that are nested much deeper.
	maxDepth = 24
)

// as reads a value of one type.
func as[T any](value any) (T, bool) {
	v, ok := value.(T)
	return v, ok
}

// asWord reads a text that is not blank.
func asWord(value any) (string, bool) {
	s, ok := value.(string)
	s = strings.TrimSpace(s)
	return s, ok && s != ""
}

// asID reads an id: a string unchanged, or an integer digit for digit.
func asID(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, strings.TrimSpace(v) != "" && utf8.ValidString(v)
	case json.Number:
		return v.String(), !strings.ContainsAny(v.String(), ".eE")
	}
	return "", false
}

// asInteger reads a number of cents or bytes: digits, and at most 2^53. It refuses a string,
// whose unit may be another.
func asInteger(value any) (int64, bool) {
	number, _ := value.(json.Number)
	n, err := strconv.ParseUint(number.String(), 10, 64)
	return int64(n), err == nil && n <= maxExact
}

func asFloat(value any) (float64, bool) {
	number, _ := value.(json.Number)
	f, err := number.Float64()
	return f, err == nil
}

// asTime reads a time in one of timeLayouts, from 1970 to 9999.
func asTime(value any) (time.Time, bool) {
	if number, ok := value.(json.Number); ok {
		return unixTime(number.String())
	}
	s, ok := asWord(value)
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

// extraOf gives the remaining members of a record: those without a field of their own, without
// secrets, and nested up to maxDepth.
func extraOf(r record) rawjson.Value {
	extra := rawjson.Filtered(encoded(r.members), secrets{secretNames}, maxDepth)
	if string(extra) == "{}" {
		return nil
	}
	return extra
}

// secrets drop secret members and texts. An object that describes an API key, such as its daily cap, is kept without the
// members that may be the API key itself.
type secrets struct{ names map[string]bool }

// Text implements rawjson.Filter.
func (secrets) Text(text string) (string, bool) { return text, !suspicious(text) }

// Member implements rawjson.Filter.
func (s secrets) Member(name string, isObject bool) (rawjson.Filter, bool) {
	switch folded := fold(name); {
	case isObject && keyNames[folded]:
		return secrets{keySecretNames}, true
	case s.names[folded]:
		return nil, false
	}
	return s, !suspicious(name)
}
