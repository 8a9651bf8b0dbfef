package rawjson

import (
	"bytes"
	"slices"
)

// Filter decides what of a value is kept. Nil keeps all. What it is given must not be changed.
type Filter interface {
	// Text gives a text as it is kept. Where it is not, neither is the array that it stands in.
	Text(text []byte) (kept []byte, ok bool)
	// Member reports whether a member of an object is kept, and by which filter.
	Member(name []byte, isObject bool) (inner Filter, ok bool)
}

// Canonical gives JSON as encoding/json would write it once it was decoded: without space, the members of an object in
// the order of their names, of two members of one name the last, and numbers as they are. Equal values have equal bytes, to
// a depth that nobody has. The text must be valid, and is not changed.
func Canonical(text []byte) Value { return Filtered(text, nil, 0) }

// Filtered is [Canonical] with what a filter keeps. With a depth above 0 it drops what is nested deeper. Nil means
// that nothing was kept.
func Filtered(text []byte, filter Filter, depth int) Value {
	r := rewriter{cursor: Cursor{text: text}, deepest: depth}
	out, ok := r.value(make([]byte, 0, len(text)), filter, 0)
	if !ok {
		return nil
	}
	return slices.Clip(out)
}

const (
	// deepestSorted is how deep members are brought in order: each level copies what is below it.
	deepestSorted = 64
	// fewMembers is how many members of an object take no memory besides.
	fewMembers = 12
)

// rewriter writes the canonical form.
type rewriter struct {
	cursor  Cursor
	deepest int
	scratch []byte
}

// value writes a value, and reports whether it is kept. What was written of one that is not stays to be cut off.
func (r *rewriter) value(dst []byte, filter Filter, depth int) ([]byte, bool) {
	kind := r.cursor.Kind()
	if r.deepest > 0 && depth > r.deepest {
		r.cursor.Skip()
		return dst, false
	}
	switch kind {
	case '{':
		return r.object(dst, filter, depth), true
	case '[':
		return r.array(dst, filter, depth)
	case '"':
		return r.text(dst, filter)
	}
	return append(dst, r.cursor.Token()...), true
}

func (r *rewriter) text(dst []byte, filter Filter) ([]byte, bool) {
	text, ok := Inner(r.cursor.Token()), true
	if filter != nil {
		text, ok = filter.Text(text)
	}
	return appendText(dst, text), ok
}

func (r *rewriter) array(dst []byte, filter Filter, depth int) (out []byte, ok bool) {
	ok = true
	dst = append(dst, '[')
	start := len(dst)
	r.cursor.Items(func() bool {
		if !ok {
			r.cursor.Skip()
			return true
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst, ok = r.value(dst, filter, depth+1)
		return true
	})
	return append(dst, ']'), ok
}

// member is a member of an object that was written.
type member struct {
	name       []byte
	start, end int // in what was written; the same where it is not kept
}

func (r *rewriter) object(dst []byte, filter Filter, depth int) []byte {
	dst = append(dst, '{')
	start, sorted := len(dst), true
	members := make([]member, 0, fewMembers)
	r.cursor.Members(func(quoted []byte) bool {
		m := member{name: Inner(quoted), start: len(dst)}
		dst, m.end = r.member(dst, m.name, filter, depth)
		sorted = sorted && m.end > m.start && (len(members) == 0 || bytes.Compare(members[len(members)-1].name, m.name) < 0)
		members = append(members, m)
		return true
	})
	if !sorted && depth < deepestSorted {
		dst = r.sort(dst, start, members)
	}
	if len(dst) > start {
		dst = dst[:len(dst)-1] // the last comma
	}
	return append(dst, '}')
}

// member writes a member with a comma behind it, or nothing.
func (r *rewriter) member(dst, name []byte, filter Filter, depth int) ([]byte, int) {
	start, inner, ok := len(dst), filter, true
	if filter != nil {
		inner, ok = filter.Member(name, r.cursor.Kind() == '{')
	}
	if !ok {
		r.cursor.Skip()
		return dst, start
	}
	if dst, ok = r.value(append(appendText(dst, name), ':'), inner, depth+1); !ok {
		return dst[:start], start
	}
	dst = append(dst, ',')
	return dst, len(dst)
}

// sort brings the members that begin at start in order, and keeps of two of one name the last.
func (r *rewriter) sort(dst []byte, start int, members []member) []byte {
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	r.scratch = append(r.scratch[:0], dst[start:]...)
	dst = dst[:start]
	for n, m := range members {
		if n+1 == len(members) || !bytes.Equal(members[n+1].name, m.name) {
			dst = append(dst, r.scratch[m.start-start:m.end-start]...)
		}
	}
	return dst
}
