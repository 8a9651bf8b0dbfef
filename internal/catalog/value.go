package catalog

import (
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxExact = 1 << 53 // every integer up to here is exact as a double too
	// maxDepth is how deep a member that is passed on may be nested. The stubs of some
	// languages refuse messages that are nested much deeper.
	maxDepth = 24
)

// as is a value of one type, as it is.
func as[T any](value any) (T, bool) {
	v, ok := value.(T)
	return v, ok
}

// asWord is a text that says something.
func asWord(value any) (string, bool) {
	s, ok := value.(string)
	s = strings.TrimSpace(s)
	return s, ok && s != ""
}

// asID is a string as it is, or an integer digit for digit.
func asID(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, strings.TrimSpace(v) != "" && utf8.ValidString(v)
	case json.Number:
		return v.String(), !strings.ContainsAny(v.String(), ".eE")
	}
	return "", false
}

// asInteger is a number of cents or bytes: digits, and not beyond 2^53. A string is no
// number here: nothing says that its unit is the same.
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

// asTime reads a time by the rules of timeLayouts. Before 1970 and after 9999 there is
// none.
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

func isShallow(value any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if !isShallow(item, depth+1) {
				return false
			}
		}
	case map[string]any:
		for _, member := range v {
			if !isShallow(member, depth+1) {
				return false
			}
		}
	}
	return true
}

// extraOf is what is left of a record: members without a field of their own, without
// secrets, and not nested without end.
func extraOf(r record) map[string]any {
	strip(r.members, secretNames, 0)
	if len(r.members) == 0 {
		return nil
	}
	return r.members
}

// strip takes out of a value what must not be passed on, and reports whether the rest may be. Members
// of the secret names are dropped, but for an object that describes a key, such as its daily cap: of
// that only what may be the key itself is.
func strip(value any, secrets map[string]bool, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch v := value.(type) {
	case string:
		return !suspicious(v)
	case []any:
		for _, item := range v {
			if !strip(item, secrets, depth+1) {
				return false
			}
		}
	case map[string]any:
		maps.DeleteFunc(v, func(name string, member any) bool {
			_, isObject := member.(map[string]any)
			switch folded := fold(name); {
			case isObject && keyNames[folded]:
				return !strip(member, keySecretNames, depth+1)
			case secrets[folded]:
				return true
			}
			return suspicious(name) || !strip(member, secrets, depth+1)
		})
	}
	return true
}
