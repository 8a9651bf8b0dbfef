package catalog

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxText is the longest text of the catalog's own in an error, in bytes.
const maxText = 1 << 10

// keyLike matches what looks like a key, whoever it belongs to.
var keyLike = regexp.MustCompile(`(?i)[a-z0-9_%-]*_live_[a-z0-9_.~+/=%-]+|\bbearer\s+[^\s"'<>,;]+`)

// scrubber keeps the key of a call out of everything that comes back from it.
type scrubber struct {
	forms [][]byte // spellings of the key, in lower case
	least int      // bytes of the shortest
}

// shortestKey is the length from which a key is taken out of texts. What is shorter is no
// key, but a word that somebody typed, and texts would lose that word.
const shortestKey = 8

func newScrubber(key string) scrubber {
	if len(key) < shortestKey {
		return scrubber{}
	}
	forms := []string{asciiLower(key), percentEncoded(key)}
	for _, form := range []string{url.QueryEscape(key), url.PathEscape(key), strings.ReplaceAll(key, "/", `\/`)} {
		if form = asciiLower(form); !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	// In base64 a text looks in one of three ways, by its position in what was encoded.
	for _, before := range []string{"", "?", "??"} {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if form := base64Core(encoding, before, key); len(form) > 4 {
				forms = append(forms, asciiLower(form))
			}
		}
	}
	s := scrubber{least: len(key)}
	for _, form := range forms {
		s.forms, s.least = append(s.forms, []byte(form)), min(s.least, len(form))
	}
	return s
}

// scrubbers keeps those of the keys that are in use: to make one costs 4 µs, 2.5 % of a call.
type scrubbers struct {
	mu sync.Mutex
	of map[string]scrubber
}

// mostScrubbers is how many are kept before all are forgotten.
const mostScrubbers = 256

func newScrubbers() *scrubbers { return &scrubbers{of: map[string]scrubber{}} }

func (s *scrubbers) get(key string) scrubber {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.of[key]
	if !ok {
		if len(s.of) >= mostScrubbers {
			clear(s.of)
		}
		one = newScrubber(key)
		s.of[key] = one
	}
	return one
}

// base64Core is the part of an encoding that depends on the key alone.
func base64Core(encoding *base64.Encoding, before, key string) string {
	text := encoding.EncodeToString([]byte(before + key))
	first := (len(before)*8 + 5) / 6
	last := (len(before) + len(key)) * 8 / 6
	return text[min(first, last):last]
}

func percentEncoded(key string) string {
	var text strings.Builder
	for i := range len(key) {
		if c := key[i]; c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			text.WriteByte(c)
		} else {
			fmt.Fprintf(&text, "%%%02x", c)
		}
	}
	return asciiLower(text.String())
}

// asciiLower keeps the length of text, so that positions in it stay valid.
func asciiLower(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
		return text
	}
	return string(appendLower(nil, text))
}

func appendLower(out []byte, text string) []byte {
	out = append(out, text...)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

// holdsKey reports whether text holds the key of the call.
func (s scrubber) holdsKey(text string) bool {
	if len(text) < s.least {
		return false
	}
	var room [1 << 10]byte // on the stack: most bodies have fewer
	lower := appendLower(room[:0], text)
	for _, form := range s.forms {
		if bytes.Contains(lower, form) {
			return true
		}
	}
	return false
}

// same reports whether it is the same key that is taken out.
func (s scrubber) same(other scrubber) bool {
	return slices.EqualFunc(s.forms, other.forms, bytes.Equal)
}

// suspicious reports whether text, from which the key of the call has been taken, held it, or
// holds what looks like another one.
func suspicious(text string) bool {
	lower := asciiLower(text)
	likely := strings.Contains(lower, "_live_") || strings.Contains(lower, "bearer")
	return strings.Contains(text, redacted) || likely && keyLike.MatchString(text)
}

// clean is text fit for an error: no keys, no HTML, no control characters, at most
// 1 KiB of valid UTF-8.
func (s scrubber) clean(text string) string {
	if letters(text) && len(text) <= maxText && !s.holdsKey(text) {
		return text // what looks like a key or HTML has more than letters
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if looksLikeHTML(text) {
		return ""
	}
	text = keyLike.ReplaceAllString(s.without(text), redacted)
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return clamp(text, maxText)
}

func letters(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
}

// redact takes the key out of every text and name in a value, and gives the value back.
// What is left is the caller's, and may be long: a text that was paid for.
func (s scrubber) redact(value any) any {
	switch v := value.(type) {
	case string:
		if s.holdsKey(v) {
			return s.without(v)
		}
	case []any:
		for i, item := range v {
			v[i] = s.redact(item)
		}
	case map[string]any:
		for name, member := range v {
			if s.holdsKey(name) {
				delete(v, name)
				continue
			}
			v[name] = s.redact(member)
		}
	}
	return value
}

// dropFrom drops each header that holds the key: a type or an ETag of a result would be
// handed on.
func (s scrubber) dropFrom(header http.Header) {
	maps.DeleteFunc(header, func(_ string, values []string) bool { return slices.ContainsFunc(values, s.holdsKey) })
}

// without is text with a mark in place of each spelling of the key.
func (s scrubber) without(text string) string {
	for _, form := range s.forms {
		text = replaceFold(text, string(form))
	}
	return text
}

// replaceFold redacts every occurrence of form, which is in lower case, in any case. text
// is valid UTF-8.
func replaceFold(text, form string) string {
	lower := asciiLower(text)
	if form == "" || !strings.Contains(lower, form) {
		return text
	}
	var rest strings.Builder
	for at := strings.Index(lower, form); at >= 0; at = strings.Index(lower, form) {
		rest.WriteString(text[:at] + redacted)
		text, lower = text[at+len(form):], lower[at+len(form):]
	}
	return rest.String() + text
}

func looksLikeHTML(text string) bool {
	lower := asciiLower(text)
	if strings.HasPrefix(strings.TrimSpace(lower), "<") {
		return true
	}
	for _, tag := range []string{"<html", "<!doctype", "<head", "<body", "<script", "</"} {
		if strings.Contains(lower, tag) {
			return true
		}
	}
	return false
}

// clamp cuts text to at most limit bytes, between characters.
func clamp(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
