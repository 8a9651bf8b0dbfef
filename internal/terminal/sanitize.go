package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Everything that this program prints passes Style.visible or Sanitize. A character of a catalog, a server or a file that a
// terminal would obey gets the form that JSON has for it, such as \u001b, so that JSON stays the same JSON.

// The colours are characters that Unicode reserves for use inside a program (noncharacters). A console replaces them by the
// codes of a terminal.
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

// isControl reports whether a terminal obeys a character instead of showing it: a control character, with which escape
// sequences begin, a direction of writing, or a separator of lines.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7F && r <= 0x9F || r == 0x061C || r == 0x200E || r == 0x200F || r >= 0x2028 && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

// Sanitize escapes the characters of a text that could steer a terminal, except ends of lines and tabs.
func Sanitize(text string) string {
	return escaped(text, func(r rune) bool { return isColour(r) || isControl(r) && r != '\n' && r != '\t' })
}

// OneLine sanitizes a text, and makes one line of it.
func OneLine(text string) string { return Sanitize(strings.Join(strings.Fields(text), " ")) }

// SanitizeText sanitizes a text whose lines may end as on Windows.
func SanitizeText(text string) string { return Sanitize(strings.ReplaceAll(text, "\r\n", "\n")) }

// copySanitized sanitizes a text of any length. It keeps no line in memory.
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

// escaped writes the characters of a kind as JSON does, and replaces bytes that are no character.
func escaped(text string, kind func(rune) bool) string {
	if !strings.ContainsFunc(text, kind) {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	var out strings.Builder
	for _, r := range text { // a byte that is no character is U+FFFD here
		if kind(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// SanitizingWriter sanitizes a stream that a person may read, such as a log.
type SanitizingWriter struct{ io.Writer }

// Write implements io.Writer.
func (w SanitizingWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Sanitize(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ShellQuote quotes an argument for a shell, if it needs quotes.
func ShellQuote(argument string) string {
	special := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,=", r)
	}
	if argument != "" && !strings.ContainsFunc(argument, special) {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
