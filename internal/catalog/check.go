package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxIDBytes is the maximum length of an identifier in a request, in bytes.
const maxIDBytes = 256

// checkID rejects an identifier that is empty, is too long, is not valid UTF-8 or contains control characters. It also
// rejects an identifier with a path element "." or "..", delimited by slashes or backslashes. Such an element could change
// the request path, for example in a proxy that decodes it.
func checkID(op, field, id string) error {
	switch {
	case id == "":
		return invalid(op, field, "must not be empty")
	case len(id) > maxIDBytes:
		return invalid(op, field, fmt.Sprintf("must not be longer than %d bytes", maxIDBytes))
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return invalid(op, field, "must be text without control characters")
	}
	for part := range strings.FieldsFuncSeq(id, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return invalid(op, field, "must not have . or .. between slashes")
		}
	}
	return nil
}

// generationID matches the generation IDs that the contract allows.
var generationID = regexp.MustCompile(`^[!-.0-\[\]-~]{1,256}$`)

// CanBeNamed reports whether callers can use a generation ID in a request. Generations with any other ID are hidden from
// callers.
func CanBeNamed(id string) bool { return generationID.MatchString(id) && id != "." && id != ".." }

func checkIdempotencyKey(key string) error {
	if !isPrintable(key) || len(key) > maxIDBytes {
		return invalid(OpCreate, "idempotency_key", fmt.Sprintf("must have 1 to %d visible ASCII characters", maxIDBytes))
	}
	return nil
}

// isPrintable reports whether text consists of one or more visible ASCII characters.
func isPrintable(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func isObject(text json.RawMessage) bool {
	start := bytes.TrimLeft(text, " \t\r\n")
	return bytes.HasPrefix(start, []byte("{")) && json.Valid(text) && utf8.Valid(text)
}

func invalid(op, field, description string) error {
	return &Error{Kind: KindInvalidInput, Op: op, Violations: []Violation{{Field: field, Description: description}}}
}
