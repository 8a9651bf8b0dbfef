package catalog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
)

// The most that is read of a list, and the most that is kept of it, in bytes.
const (
	maxListRead = 64 << 20
	maxList     = 8 << 20
)

// A member of a record is left out where it is longer than this part of the room that is left, but never a short one: so
// that large inputs of some records leave room for all.
const (
	memberPart  = 128
	shortMember = 1 << 10
)

// omitted stands in a shortened list in place of a member that was left out.
const omitted = "\u0000omitted"

var omittedJSON = []byte(`"\u0000omitted"`)

// fieldsOf are the contract's names of what may be left out, by the names of the catalog.
var fieldsOf = []struct {
	field string
	names []string
}{{"inputs", inputsNames}, {"text", textOutputNames}, {"failure_message", failureNames}}

// otherFields is what all else that is left out is a part of.
const otherFields = "upstream_fields"

// takeOmitted takes out of a record what stands there for members that were left out, and names the fields that they are in
// a state: what is no field in it is one of the others.
func takeOmitted(r *Record, state State) (fields []string) {
	name := func(field string) {
		if field == "text" && state != StateSucceeded || field == "failure_message" && state != StateFailed && state != StateRefunded {
			field = otherFields
		}
		if !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	left := bytes.Count(r.sent, omittedJSON)
	if left == 0 {
		return nil
	}
	isOmitted := func(v JSON) (bool, bool) { return true, bytes.Equal(v, omittedJSON) }
	for _, f := range fieldsOf {
		for _, ok := take(r, f.names, isOmitted); ok; _, ok = take(r, f.names, isOmitted) {
			left--
			name(f.field)
		}
	}
	if left > 0 {
		name(otherFields)
	}
	return fields
}

// otherThan names what else was left out, where a field that has such members is there all the same.
func otherThan(fields []string, field string) []string {
	at := slices.Index(fields, field)
	if at < 0 {
		return fields
	}
	fields = slices.Delete(fields, at, at+1)
	if !slices.Contains(fields, otherFields) {
		fields = append(fields, otherFields)
	}
	return fields
}

// maxEnvelope is how deep a list may stand in its body, and a record in a list.
const maxEnvelope = 3

var (
	errFull = errors.New("the list is too long") // what was begun last is not whole
	errCut  = errors.New("the list was cut")     // it is too long, and all that was begun is closed
)

var (
	wrapsGeneration = set(generationWrappers)
	holdsInputs     = set(inputsNames)
)

// shortener copies a list while it is read, without large members of its records. It looks at nothing but the structure:
// whoever decodes the copy finds the faults.
type shortener struct {
	in   *bufio.Reader
	read *io.LimitedReader // below in
	out  []byte
}

// shorten reads a list. Of one that is too long it gives the records that came first.
func shorten(body io.Reader) (short []byte, cut bool, err error) {
	limited := &io.LimitedReader{R: body, N: maxListRead}
	s := &shortener{in: bufio.NewReaderSize(limited, 32<<10), read: limited}
	if mark, _ := s.in.Peek(len(byteOrderMark)); bytes.Equal(mark, byteOrderMark) {
		_, _ = s.in.Discard(len(mark))
	}
	switch err = s.outer(0); {
	case errors.Is(err, errCut):
		return s.out, true, nil
	case errors.Is(err, errFull):
		return nil, false, &http.MaxBytesError{Limit: maxListRead}
	case err != nil && !errors.Is(err, io.EOF):
		return nil, false, err
	}
	rest, err := io.ReadAll(io.LimitReader(s.in, shortMember)) // there is none, or it is a fault
	return append(s.out, rest...), false, err
}

// outer copies the body, or what is in it and may be the list.
func (s *shortener) outer(depth int) error {
	switch c, err := s.next(); {
	case err != nil:
		return err
	case c == '[':
		return s.list()
	case c == '{':
		return s.object(depth, false)
	}
	return s.short()
}

// list copies the records of a list. Where there is no room for one, the list ends before it.
func (s *shortener) list() error {
	s.copyByte()
	for {
		start := len(s.out)
		c, err := s.next()
		switch {
		case err != nil:
		case c == ']':
			s.copyByte()
			return nil
		case c == ',':
			s.copyByte()
		case c == '{':
			err = s.object(0, true)
		default:
			err = s.short()
		}
		if errors.Is(err, errFull) || err == nil && len(s.out) > maxList {
			s.out = append(bytes.TrimSuffix(s.out[:start], []byte(",")), ']')
			return errCut
		}
		if err != nil {
			return err
		}
	}
}

// object copies an object: a record, or what may hold the list.
func (s *shortener) object(depth int, isRecord bool) error {
	s.copyByte()
	for {
		c, err := s.next()
		switch {
		case err != nil:
			return err
		case c == '}':
			s.copyByte()
			return nil
		case c == ',':
			s.copyByte()
			continue
		}
		start := len(s.out)
		err = s.member(depth, isRecord)
		if errors.Is(err, errFull) && depth == 0 && !isRecord {
			s.out, err = bytes.TrimSuffix(s.out[:start], []byte(",")), errCut
		}
		if errors.Is(err, errCut) {
			s.out = append(s.out, '}')
		}
		if err != nil {
			return err
		}
	}
}

// member copies a name and its value.
func (s *shortener) member(depth int, isRecord bool) error {
	start := len(s.out)
	if err := s.short(); err != nil {
		return err
	}
	name := keyOf(bytes.Trim(s.out[start:], `"`))
	c, err := s.next()
	if err == nil && c == ':' {
		s.copyByte()
		c, err = s.next()
	}
	switch {
	case err != nil:
		return err
	case isRecord && c == '{' && wrapsGeneration[name] && depth < maxEnvelope:
		return s.object(depth+1, true)
	case !isRecord && !holdsInputs[name] && depth < maxEnvelope:
		return s.outer(depth + 1)
	}
	return s.short()
}

// short copies a value without looking into it, or leaves it out where it is too long.
func (s *shortener) short() error {
	start, limit, isLong := len(s.out), max(shortMember, (maxList-len(s.out))/memberPart), false
	var v progress
	for ended := false; !ended; {
		window, err := s.window()
		if err != nil {
			return err
		}
		n := 0
		n, ended = v.scan(window)
		if !isLong {
			s.out = append(s.out, window[:n]...)
		}
		if len(s.out)-start > limit {
			s.out, isLong = s.out[:start], true
		}
		_, _ = s.in.Discard(n)
	}
	if isLong {
		s.out = append(s.out, omittedJSON...)
	}
	if len(s.out) > maxList {
		return errFull
	}
	return nil
}

// next gives the next byte that is no space, and leaves it there.
func (s *shortener) next() (byte, error) {
	for {
		window, err := s.window()
		if err != nil {
			return 0, err
		}
		if rest := bytes.TrimLeft(window, jsonSpace); len(rest) > 0 {
			_, _ = s.in.Discard(len(window) - len(rest))
			return rest[0], nil
		}
		_, _ = s.in.Discard(len(window))
	}
}

// copyByte copies the byte that next has given.
func (s *shortener) copyByte() {
	c, _ := s.in.ReadByte()
	s.out = append(s.out, c)
}

// window gives what was read and is not copied yet, one byte at least.
func (s *shortener) window() ([]byte, error) {
	if _, err := s.in.Peek(1); err != nil {
		if errors.Is(err, io.EOF) && s.read.N <= 0 {
			return nil, errFull
		}
		return nil, err
	}
	return s.in.Peek(s.in.Buffered())
}

// progress is how far a value was scanned.
type progress struct {
	depth                  int
	begun, quoted, escaped bool
}

// scan finds the end of the value in a text, or goes on to the end of the text.
func (v *progress) scan(text []byte) (n int, ended bool) {
	for n, c := range text {
		switch {
		case v.escaped:
			v.escaped = false
		case v.quoted:
			v.escaped, v.quoted = c == '\\', c != '"'
			if !v.quoted && v.depth == 0 {
				return n + 1, true
			}
		case c == '"':
			v.quoted = true
		case c == '{' || c == '[':
			v.depth++
		case v.depth > 0:
			if c == '}' || c == ']' {
				v.depth--
			}
			if v.depth == 0 {
				return n + 1, true
			}
		case bytes.IndexByte([]byte(",:}]"+jsonSpace), c) >= 0: // the end of a number or word, or a fault
			if v.begun {
				return n, true
			}
			return n + 1, true
		}
		v.begun = true
	}
	return len(text), false
}
