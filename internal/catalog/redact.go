package catalog

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// maxText is the maximum length, in bytes, of the catalog's text in an error.
const maxText = 1 << 10

// keyLike matches text that looks like an API key.
var keyLike = regexp.MustCompile(`(?i)[a-z0-9_%-]*_live_[a-z0-9_.~+/=%-]+|\bbearer\s+[^\s"'<>,;]+`)

// redactor redacts a call's API key in the catalog's response to that call. A nil redactor redacts nothing.
type redactor struct {
	key     string
	spell   sync.Once
	spelled []string // spellings of the API key in lower case; computed on first use
}

// shortestKey is the minimum length of an API key that is redacted, in bytes. A shorter key is probably an ordinary word, which
// may occur in other text.
const shortestKey = 8

func newRedactor(key string) *redactor {
	if len(key) < shortestKey {
		return nil
	}
	return &redactor{key: key}
}

func (r *redactor) forms() []string {
	r.spell.Do(func() { r.spelled = spellings(r.key) })
	return r.spelled
}

// spellings returns the forms in which a response may contain an API key, in lower case.
func spellings(key string) []string {
	forms := []string{key, percentEncoded(key), url.QueryEscape(key), url.PathEscape(key), strings.ReplaceAll(key, "/", `\/`)}
	// A string has three forms in Base64, depending on its position in the encoded bytes.
	for _, before := range []string{"", "?", "??"} {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, base64Core(encoding, before, key))
		}
	}
	for i, form := range forms {
		forms[i] = asciiLower(form)
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// base64Core returns the part of an API key's Base64 encoding that does not depend on the bytes around the API key. Base64
// encodes groups of three bytes. The length of prefix is the number of bytes between the start of a group and the API key. Its
// content does not matter.
func base64Core(encoding *base64.Encoding, prefix, key string) string {
	text := encoding.EncodeToString([]byte(prefix + key))
	first := (len(prefix)*8 + 5) / 6
	last := (len(prefix) + len(key)) * 8 / 6
	return text[min(first, last):last]
}

// percentEncoded returns key with every byte percent-encoded, except letters and digits.
func percentEncoded(key string) string {
	text := make([]byte, 0, 3*len(key))
	for _, c := range []byte(key) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			text = append(text, c)
		} else {
			text = fmt.Appendf(text, "%%%02x", c)
		}
	}
	return string(text)
}

// asciiLower converts ASCII letters to lower case. It preserves the length of text and all offsets.
func asciiLower(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, text)
}

// holdsKey reports whether a text contains the API key of the call.
func (r *redactor) holdsKey(text string) bool {
	if r == nil || !hasWord(text, len(r.key), " ") {
		return false
	}
	lower := asciiLower(text)
	return slices.ContainsFunc(r.forms(), func(form string) bool { return strings.Contains(lower, form) })
}

// hasWord reports whether a text has a word with at least the given length, in bytes. separators contains the characters that
// separate words. A text without such a word can't contain an API key of this length, because each spelling of an API key is a
// single word and no shorter than the key.
func hasWord(text string, length int, separators string) bool {
	for len(text) >= length {
		space := strings.LastIndexAny(text[:length], separators)
		if space < 0 {
			return true
		}
		text = text[space+1:]
	}
	return false
}

// isSuspicious reports whether a text contains something that looks like an API key, or the marker that replaces an API key.
func isSuspicious(text string) bool {
	return strings.Contains(text, redacted) || mayBeKey(text) && keyLike.MatchString(text)
}

// mayBeKey reports whether a text contains "_live_" or "bearer". Only such a text can match keyLike.
func mayBeKey(text string) bool { return containsFold(text, "_live_") || containsFold(text, "bearer") }

// containsFold reports whether text contains word, which must be lower-case ASCII. It ignores case.
func containsFold(text, word string) bool {
	for at := range max(0, len(text)-len(word)+1) {
		if c := text[at]; (c == word[0] || c == word[0]-'a'+'A') && asciiLower(text[at:at+len(word)]) == word {
			return true
		}
	}
	return false
}

// cleanText prepares a text for use in an error. It replaces API keys and control characters, and limits the text to 1 KiB of
// valid UTF-8. For a text that contains HTML, cleanText returns "".
func (r *redactor) cleanText(text string) string {
	if isPlain(text) && !mayBeKey(text) && !r.holdsKey(text) {
		return clamp(text, maxText)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if html.MatchString(strings.TrimSpace(text)) {
		return ""
	}
	text = keyLike.ReplaceAllString(r.redactKey(text), redacted)
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	return clamp(text, maxText)
}

// isPlain reports whether a text is printable ASCII without HTML.
func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' || c == '<' })
}

// redact redacts the API key in every string of a value, and omits members whose names contain it. A value with neither the API
// key nor a backslash is returned unchanged. Any other value is returned in canonical form.
func (r *redactor) redact(v JSON) JSON {
	if r == nil {
		return v
	}
	if isEscaped := strings.Contains(string(v), `\`); !isEscaped && (!hasWord(string(v), len(r.key), ` "`) || !r.holdsKey(string(v))) {
		return v
	}
	clean, _ := writer{redactor: r}.appendValue(nil, v, false, math.MaxInt)
	return JSON(clean)
}

// dropFrom removes the headers that contain the API key. Otherwise, a caller could receive the API key in the Content-Type or
// the ETag of a result.
func (r *redactor) dropFrom(header http.Header) {
	maps.DeleteFunc(header, func(_ string, values []string) bool { return slices.ContainsFunc(values, r.holdsKey) })
}

// redactKey replaces each spelling of the API key with [redacted].
func (r *redactor) redactKey(text string) string {
	if !r.holdsKey(text) {
		return text
	}
	for _, form := range r.forms() {
		text = replaceFold(text, form)
	}
	return text
}

// replaceFold redacts every occurrence of form, ignoring case. form must be in lower case, and text must be valid UTF-8.
func replaceFold(text, form string) string {
	var clean strings.Builder
	for i, part := range strings.Split(asciiLower(text), form) {
		if i > 0 {
			clean.WriteString(redacted)
			text = text[len(form):]
		}
		clean.WriteString(text[:len(part)])
		text = text[len(part):]
	}
	return clean.String()
}

// html matches a text that starts with '<', or that contains '</' or the start of a tag such as '<html'.
var html = regexp.MustCompile(`(?i)^<|<html|<!doctype|<head|<body|<script|</`)

// clamp shortens a text to at most limit bytes, without splitting a character.
func clamp(text string, limit int) string {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
