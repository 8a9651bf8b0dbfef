package terminal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Everything that this program prints passes Style.shown or Sanitize: what a terminal would obey and not
// show, in a text from a catalog, a server or a file, gets the form that JSON has for it, as in
// \u001b. So a text of JSON stays the same JSON.

// Colours, by what they mean. Inside the program they are characters that are not meant for
// exchange (Unicode's noncharacters); Style.shown makes a terminal's codes of them.
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

// isColour reports whether a character may be one of the above.
func isColour(r rune) bool { return r >= 0xFDD0 && r <= 0xFDEF }

// isControl reports whether a terminal obeys a character instead of showing it: controls, with which escape sequences
// begin, the directions of writing, and separators of lines. The end of a line and the tab are for the caller to judge.
func isControl(r rune) bool {
	switch {
	case r < ' ', r >= 0x7F && r <= 0x9F:
		return true
	case r == 0x061C, r == 0x200E, r == 0x200F, r >= 0x2028 && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// Sanitize writes foreign text so that a terminal shows all of it. Its lines stay.
func Sanitize(text string) string {
	return escaped(text, func(r rune) bool { return isColour(r) || isControl(r) && r != '\n' && r != '\t' })
}

// OneLine does the same, and makes one line of it.
func OneLine(text string) string { return Sanitize(strings.Join(strings.Fields(text), " ")) }

// SanitizeText does the same to a text of lines, whatever ends them.
func SanitizeText(text string) string { return Sanitize(strings.ReplaceAll(text, "\r\n", "\n")) }

// copySanitized does the same to a text of any length, of which it keeps no line.
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

// escaped writes the characters of a kind, and bytes that are none, in their visible form.
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

// SanitizingWriter makes what is written harmless, such as logs that somebody looks at.
type SanitizingWriter struct{ io.Writer }

// Write implements io.Writer.
func (w SanitizingWriter) Write(p []byte) (int, error) {
	if !bytes.ContainsFunc(p, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7F }) {
		return w.Writer.Write(p) // as nearly all logs
	}
	if _, err := io.WriteString(w.Writer, Sanitize(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ShellQuote writes an argument as a shell takes it.
func ShellQuote(argument string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@%:,=", r)
	}
	if argument != "" && !strings.ContainsFunc(argument, func(r rune) bool { return !plain(r) }) {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
