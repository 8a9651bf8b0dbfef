// Package rawjson reads JSON that stays bytes. What nobody needs decoded, such as the inputs of an order, is passed on
// as it is: a decoded value takes thirty times as much memory.
package rawjson

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Value is one JSON value in its canonical form, see [Canonical]. Nil is none.
type Value []byte

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	return v, nil
}

// UnmarshalJSON implements json.Unmarshaler. A null is none.
func (v *Value) UnmarshalJSON(text []byte) error {
	*v = nil
	if string(text) != "null" {
		*v = Canonical(text)
	}
	return nil
}

// Cursor walks once through a text that is valid JSON. Each method skips the space before what it reads.
type Cursor struct {
	text []byte
	at   int
}

// NewCursor makes a cursor at the beginning of a text, which must be valid JSON.
func NewCursor(text []byte) *Cursor { return &Cursor{text: text} }

// Kind is the first byte of the value at the cursor: '{', '[', '"', 't', 'f', 'n', '-' or a digit.
func (c *Cursor) Kind() byte {
	for c.text[c.at] <= ' ' {
		c.at++
	}
	return c.text[c.at]
}

// Items reads an array. each must read one item, and reports whether to go on.
func (c *Cursor) Items(each func() bool) bool { return c.all(']', each) }

// Members reads an object. each gets the name of a member, in its quotes, must read the member, and reports whether to go
// on.
func (c *Cursor) Members(each func(quoted []byte) bool) bool {
	return c.all('}', func() bool {
		quoted := c.Token()
		c.Kind() // ':'
		c.at++
		return each(quoted)
	})
}

// all reads an object or an array up to its end, and reports whether it has come there.
func (c *Cursor) all(end byte, each func() bool) bool {
	c.Kind()
	c.at++ // the opening
	for c.Kind() != end {
		if c.text[c.at] == ',' {
			c.at++
		}
		if !each() {
			return false
		}
	}
	c.at++
	return true
}

// Token reads a string, number, true, false or null as it is written.
func (c *Cursor) Token() []byte {
	first := c.Kind()
	start := c.at
	if first == '"' {
		c.at += stringLength(c.text[start:])
		return c.text[start:c.at]
	}
	for c.at < len(c.text) && !isEnd(c.text[c.at]) {
		c.at++
	}
	return c.text[start:c.at]
}

// isEnd reports whether a byte ends a number or a word.
func isEnd(b byte) bool { return b <= ' ' || b == ',' || b == ']' || b == '}' || b == ':' }

// stringLength is the length of the string that a text begins with, in bytes with its quotes.
func stringLength(text []byte) int {
	for at := 1; ; at++ {
		at += bytes.IndexByte(text[at:], '"')
		escapes := 0
		for text[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at + 1
		}
	}
}

// Inner gives the text of a string with its quotes: a part of it where it stands there as it is. What is no UTF-8 in it
// becomes U+FFFD.
func Inner(quoted []byte) []byte {
	if inner := quoted[1 : len(quoted)-1]; isPlain(inner) {
		return inner
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // it is valid
	return []byte(text)
}

// Texts goes through the strings of a text that is valid JSON, the names of members too, each in its quotes. each reports
// whether to go on.
func Texts(text []byte, each func(quoted []byte) bool) {
	for {
		start := bytes.IndexByte(text, '"')
		if start < 0 {
			return
		}
		text = text[start:]
		length := stringLength(text)
		if !each(text[:length]) {
			return
		}
		text = text[length:]
	}
}

// Skip passes over a value of any kind, and gives it as it is written.
func (c *Cursor) Skip() []byte {
	kind := c.Kind()
	if kind != '{' && kind != '[' {
		return c.Token()
	}
	start, depth := c.at, 0
	for {
		switch c.text[c.at] {
		case '"':
			c.at += stringLength(c.text[c.at:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if c.at++; depth == 0 {
			return c.text[start:c.at]
		}
	}
}

// isPlain reports whether a text stands in quotes as it is, in the canonical form.
func isPlain(text []byte) bool {
	ascii := true
	for _, b := range text {
		if b < ' ' || b == '"' || b == '\\' {
			return false
		}
		ascii = ascii && b < utf8.RuneSelf
	}
	return ascii || utf8.Valid(text) && !bytes.Contains(text, []byte("\u2028")) && !bytes.Contains(text, []byte("\u2029"))
}

// AppendText writes a string as encoding/json does, without its escapes for HTML.
func AppendText(dst []byte, text string) []byte { return appendText(dst, []byte(text)) }

func appendText(dst, text []byte) []byte {
	if isPlain(text) {
		return append(append(append(dst, '"'), text...), '"')
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(string(text)) // a string can be encoded
	return append(dst, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

// Depth is how deep arrays and objects are nested in a text, which may be no JSON at all.
func Depth(text []byte) (deepest int) {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = textEnd(text, at)
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// Count is how many values a text has, arrays and objects too, or a few more: an empty one counts twice. The text may be no
// JSON at all.
func Count(text []byte) int {
	count := 1
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = textEnd(text, at)
		case '{', '[', ',':
			count++
		}
	}
	return count
}

// textEnd is where a string ends that begins at a position of a text.
func textEnd(text []byte, at int) int {
	for at++; at < len(text) && text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return at
}
