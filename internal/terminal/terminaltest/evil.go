// Package terminaltest helps to test that output can't control a terminal. It provides a text with control characters, and a
// check that output contains this text only in escaped form.
package terminaltest

import (
	"strings"
	"testing"
	"unicode"
)

// Evil is a hostile string, such as a catalog might send. It contains directional overrides, line breaks, the color marks of
// package terminal, and 7-bit and 8-bit escape sequences that clear, color and rename a terminal.
const Evil = "evil\x1b[2J\x1b[31m\x1b]0;title\x07\u009b1m\x7f\b\r\n  id2  \u202e\u2066\u2069\u200e\u200f\u061c\u2028" + "\uFDD5e\uFDD0"

// hasControl reports whether a terminal would interpret a character instead of showing it. Line separators and the color
// marks of package terminal count as such characters. Line breaks and tabs do not.
func hasControl(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r >= 0xFDD0 && r <= 0xFDEF, r == 0x2028, r == 0x2029:
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// WantHarmless reports a test error if text contains a character that a terminal would interpret, or if the line break in
// [Evil] has started a new line in text. The error message starts with label.
func WantHarmless(t *testing.T, label, text string) {
	t.Helper()
	if at := strings.IndexFunc(text, hasControl); at >= 0 {
		t.Errorf("%s: %q is printed in %q", label, text[at:min(at+6, len(text))], text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "id2") || strings.HasPrefix(line, "  id2") {
			t.Errorf("%s: the text starts a new line: %q", label, text)
		}
	}
}
