package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Untrusted text reaches a terminal only through Style.escape or Sanitize. Both functions write each character that could
// control a terminal as a JSON escape, such as \u001b, so that JSON output keeps its meaning.

// Colors and styles of text. In strings, each of them is represented by a noncharacter, which Unicode reserves for internal use
// in programs. A console replaces the noncharacter with an escape sequence.
const (
	uncoloured = "\uFDD0"
	Dim        = "\uFDD1"
	Bold       = "\uFDD2"
	Green      = "\uFDD3"
	Yellow     = "\uFDD4"
	Red        = "\uFDD5"
	Blue       = "\uFDD6"
)

var colourCodes = strings.NewReplacer(uncoloured, "\x1b[0m", Dim, "\x1b[2m", Bold, "\x1b[1m",
	Green, "\x1b[32m", Yellow, "\x1b[33m", Red, "\x1b[31m", Blue, "\x1b[36m")

func isColour(r rune) bool { return r >= 0xFDD0 && r <= 0xFDEF }

// isControl reports whether a terminal interprets a character instead of showing it. Such characters are control characters
// (which may start an escape sequence), text direction marks, and line separators.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7F && r <= 0x9F || r == 0x061C || r == 0x200E || r == 0x200F || r >= 0x2028 && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

// Sanitize escapes the characters that could control a terminal, except line breaks and tabs.
func Sanitize(text string) string {
	return escapeKind(text, func(r rune) bool { return isColour(r) || isControl(r) && r != '\n' && r != '\t' })
}

// OneLine sanitizes text, and replaces each sequence of spaces, tabs and line breaks with a single space.
func OneLine(text string) string { return Sanitize(strings.Join(strings.Fields(text), " ")) }

// SanitizeText replaces Windows line endings with \n, and sanitizes the text.
func SanitizeText(text string) string { return Sanitize(strings.ReplaceAll(text, "\r\n", "\n")) }

// copySanitized copies text, replaces Windows line endings with \n, and sanitizes the text. It does not buffer complete lines,
// so lines can have any length.
func copySanitized(w io.Writer, from io.Reader) error {
	in, out := bufio.NewReader(from), bufio.NewWriter(w)
	for {
		r, _, err := in.ReadRune()
		if next, _ := in.Peek(1); err == nil && (r != '\r' || string(next) != "\n") {
			_, err = out.WriteString(Sanitize(string(r)))
		}
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// escapeKind replaces each character of the given kind with a JSON escape. It replaces invalid UTF-8 with U+FFFD.
func escapeKind(text string, kind func(rune) bool) string {
	if !strings.ContainsFunc(text, kind) {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	var out strings.Builder
	for _, r := range text { // range yields U+FFFD for invalid bytes
		if kind(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// SanitizingWriter sanitizes each write to a stream that people read, such as a log.
type SanitizingWriter struct{ io.Writer }

// Write implements io.Writer.
func (w SanitizingWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Sanitize(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ShellQuote quotes an argument for use in a shell command. It adds quotes only if they are needed.
func ShellQuote(argument string) string {
	special := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,=", r)
	}
	if argument != "" && !strings.ContainsFunc(argument, special) {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
