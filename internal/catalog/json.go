package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/rawjson"
)

// decode reads a body of one JSON value. Numbers stay as they were written, and of two
// members of one name the last one counts.
func decode(body []byte) (value any, err error) { return value, decodeInto(body, &value) }

// decodeInto reads a body of one JSON value.
func decodeInto(body []byte, value any) error {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, byteOrderMark)))
	dec.UseNumber()
	if err := dec.Decode(value); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the body is empty")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body has more than one JSON value")
	}
	return nil
}

var byteOrderMark = []byte("\uFEFF")

const jsonSpace = " \t\r\n"

// opened gives a value as the reading rules take it: a text, number or word decoded, an object or array as it is, until
// [asObject] or [asArray] opens it. What nobody reads, such as inputs, is never decoded.
func opened(text rawjson.Value) any {
	switch text[0] {
	case '{', '[':
		return text
	case '"':
		return rawjson.Unquote(text)
	case 't', 'f':
		return text[0] == 't'
	case 'n':
		return nil
	}
	return json.Number(text)
}

// asObject gives the members of an object.
func asObject(value any) (map[string]any, bool) {
	text, raw := value.(rawjson.Value)
	if !raw || text[0] != '{' {
		members, ok := value.(map[string]any)
		return members, ok
	}
	members, cursor := map[string]any{}, rawjson.NewCursor(text)
	cursor.Members(func(name string) bool {
		members[name] = opened(cursor.Skip())
		return true
	})
	return members, true
}

// asArray gives the items of an array.
func asArray(value any) ([]any, bool) {
	text, raw := value.(rawjson.Value)
	if !raw || text[0] != '[' {
		items, ok := value.([]any)
		return items, ok
	}
	items, cursor := []any{}, rawjson.NewCursor(text)
	cursor.Items(func() bool {
		items = append(items, opened(cursor.Skip()))
		return true
	})
	return items, true
}

// isMembers reports whether a value is an object.
func isMembers(value any) bool {
	text, raw := value.(rawjson.Value)
	_, decoded := value.(map[string]any)
	return decoded || raw && text[0] == '{'
}

// encoded gives a value as JSON.
func encoded(value any) rawjson.Value {
	switch v := value.(type) {
	case rawjson.Value:
		return v
	case map[string]any:
		members := make(map[string]rawjson.Value, len(v))
		for name, member := range v {
			members[name] = encoded(member)
		}
		return rawjson.Join(members)
	case string:
		return rawjson.AppendText(nil, v)
	}
	text, _ := json.Marshal(value) // it was read from JSON
	return text
}

// fold is a name without its style: costCents, cost_cents and Cost-Cents are the same.
func fold(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '_' || c == '-' || c == ' ':
			return -1
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return c
	}, name)
}

// names is a table of names, folded.
func names(list ...string) []string {
	for i, name := range list {
		list[i] = fold(name)
	}
	return list
}

func set(list []string) map[string]bool {
	members := make(map[string]bool, len(list))
	for _, name := range list {
		members[name] = true
	}
	return members
}

// withNames gives a set with more names.
func withNames(some map[string]bool, more []string) map[string]bool {
	all := set(more)
	maps.Copy(all, some)
	return all
}

// record is an object whose members are looked up by folded names.
type record struct {
	members map[string]any
	folded  map[string]string // to the name as it was sent
}

func newRecord(value any) (record, bool) {
	members, ok := asObject(value)
	if !ok {
		return record{}, false
	}
	r := record{members: members, folded: make(map[string]string, len(members))}
	for name := range members {
		key := fold(name)
		if other, twice := r.folded[key]; !twice || name < other { // the same choice every time
			r.folded[key] = name
		}
	}
	return r, true
}

// get is the member of a folded name.
func (r record) get(name string) (any, bool) {
	full, ok := r.folded[name]
	return r.members[full], ok
}

// object is the member of a folded name, where that is an object.
func (r record) object(name string) (record, bool) {
	member, _ := r.get(name)
	return newRecord(member)
}

func (r record) drop(name string) {
	delete(r.members, r.folded[name])
	delete(r.folded, name)
}

// find reads the first readable member of names, and leaves it in the record.
func find[T any](r record, names []string, read func(any) (T, bool)) (value T, name string, ok bool) {
	for _, name := range names {
		if member, there := r.get(name); there {
			if value, ok := read(member); ok {
				return value, name, true
			}
		}
	}
	return value, "", false
}

// take is find, and removes the member, so that it is not among the unknown ones. An
// unreadable member stays among them.
func take[T any](r record, names []string, read func(any) (T, bool)) (T, bool) {
	value, name, ok := find(r, names, read)
	if ok {
		r.drop(name)
	}
	return value, ok
}

// optional gives a pointer to a value, nil where there is none.
func optional[T any](value T, ok bool) *T {
	if !ok {
		return nil
	}
	return new(value)
}

// weight is the score of an object that has one of some members: records score more than wrappers.
type weight struct {
	names  []string
	score  int
	nested bool // the member may be an object
}

func (r record) score(weights []weight) (sum int) {
	for _, w := range weights {
		telling := func(v any) (bool, bool) {
			return true, v != nil && (w.nested || !isMembers(v))
		}
		if _, _, ok := find(r, w.names, telling); ok {
			sum += w.score
		}
	}
	return sum
}

// unwrap finds the record in a body: the object itself, or one below that looks more
// like it. The id weighs most, as envelopes have a status of their own.
func unwrap(value any, wrappers []string, weights []weight) (record, bool) {
	if list, ok := asArray(value); ok && len(list) == 1 {
		value = list[0]
	}
	top, ok := newRecord(value)
	if !ok {
		return top, false
	}
	return top.inside(wrappers, weights), true
}

// inside is the record itself, or one in it with a higher score.
func (r record) inside(wrappers []string, weights []weight) record {
	best := r
	for _, name := range wrappers {
		inner, ok := r.object(name)
		if !ok {
			continue
		}
		if inner = inner.deepest(wrappers, weights); inner.score(weights) > best.score(weights) {
			best = inner
		}
	}
	return best
}

// deepest looks one wrapper further down, as in {"data":{"generation":{…}}}.
func (r record) deepest(wrappers []string, weights []weight) record {
	for _, name := range wrappers {
		if inner, ok := r.object(name); ok && inner.score(weights) > r.score(weights) {
			return inner
		}
	}
	return r
}

// findList finds the list in a body: an array, a member of a known name, an object's one
// array, or an object of records. A list that is null is empty.
func findList(value any, names []string, weights []weight) ([]any, bool) {
	if items, ok := asArray(value); ok || value == nil {
		return items, true
	}
	r, ok := newRecord(value)
	if !ok {
		return nil, false
	}
	for _, name := range names {
		member, there := r.get(name)
		if items, ok := asArray(member); there && (ok || member == nil) {
			return items, true
		}
	}
	for _, name := range names {
		if inner, _ := r.get(name); inner != nil {
			if items, ok := findList(inner, names, weights); ok {
				return items, true
			}
		}
	}
	if items, ok := onlyArray(r.members); ok {
		return items, true
	}
	return keyed(r.members, weights)
}

// keyed reads an object of records that is keyed by their identifiers, in the order of
// these. Every record must look like one.
func keyed(members map[string]any, weights []weight) ([]any, bool) {
	items := make([]any, 0, len(members))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		r, ok := newRecord(members[id])
		if !ok || r.score(weights) == 0 {
			return nil, false
		}
		if _, ok := r.get("id"); !ok {
			r.members["id"] = id
		}
		items = append(items, r.members)
	}
	return items, len(items) > 0
}

func onlyArray(members map[string]any) (only []any, found bool) {
	for _, member := range members {
		if items, ok := asArray(member); ok {
			if found {
				return nil, false
			}
			only, found = items, true
		}
	}
	return only, found
}
