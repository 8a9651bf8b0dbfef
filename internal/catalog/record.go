package catalog

import (
	"encoding/json"
	"slices"
)

// Record is a JSON object with an index of the members whose names are in the tables in membernames.go. The other members are
// parsed only when they are needed.
type Record struct {
	sent   JSON
	picked []picked // members in the index, with at most one for each key
}

// picked is a member of a Record whose name is in one of the tables in membernames.go.
type picked struct {
	key   string
	name  string // name in the catalog's spelling
	value JSON
	taken bool
}

// NewRecord indexes the members of a JSON object. It returns false if v is not an object.
func NewRecord(v JSON) (*Record, bool) {
	if v.Kind() != '{' {
		return nil, false
	}
	r := &Record{sent: v, picked: make([]picked, 0, 12)}
	v.Each(r.addMember)
	return r, true
}

// addMember adds a member to the index under its key, which is the folded form of its name (see [Fold]). If members with
// different names have the same key, the index contains the member whose name sorts first. If members have the same name, the
// index contains the last one.
func (r *Record) addMember(m Member) {
	key := keyOf(m.Name)
	if key == "" {
		return
	}
	for i := range r.picked {
		if other := &r.picked[i]; other.key == key {
			if m.Name <= other.name {
				other.name, other.value = m.Name, m.Value
			}
			return
		}
	}
	r.picked = append(r.picked, picked{key: key, name: m.Name, value: m.Value})
}

// member returns the member with the given key. It returns nil if the record has no such member, or if the member is
// marked as taken.
func (r *Record) member(key string) *picked {
	if r == nil {
		return nil
	}
	for i := range r.picked {
		if p := &r.picked[i]; p.key == key && !p.taken {
			return p
		}
	}
	return nil
}

// get returns the value of the member with the given key. It returns false if the record has no such member, or if the member
// was taken.
func (r *Record) get(key string) (JSON, bool) {
	if p := r.member(key); p != nil {
		return p.value, true
	}
	return "", false
}

// hasTaken reports whether the member with the given name is marked as taken, which excludes it from Extra.
func (r *Record) hasTaken(name string) bool {
	return slices.ContainsFunc(r.picked, func(p picked) bool { return p.taken && p.name == name })
}

// object returns the object that is the value of the member with the given key. It returns false if there is no such object.
func (r *Record) object(key string) (*Record, bool) {
	v, _ := r.get(key)
	return NewRecord(v)
}

// find reads the members with the given names, in this order, until fn returns true for one of them. It returns the value from
// fn, and the member. It skips members that are marked as taken, and does not mark the returned member.
func find[T any](r *Record, names []string, fn func(JSON) (T, bool)) (value T, found *picked, ok bool) {
	for _, name := range names {
		if p := r.member(name); p != nil {
			if value, ok := fn(p.value); ok {
				return value, p, true
			}
		}
	}
	return value, nil, false
}

// takeMember is like [find], but instead of returning the member, it marks the member as taken. A taken member is omitted from
// the Extra field of the result.
func takeMember[T any](r *Record, names []string, fn func(JSON) (T, bool)) (T, bool) {
	value, found, ok := find(r, names, fn)
	if ok {
		found.taken = true
	}
	return value, ok
}

// optionalPointer returns a pointer to a value, or nil if ok is false.
func optionalPointer[T any](value T, ok bool) *T {
	if !ok {
		return nil
	}
	return new(value)
}

// weight assigns a score to each object that has a member with one of the names. Scores distinguish records from their
// wrappers.
type weight struct {
	names  []string
	score  int
	nested bool // whether a member adds to the score even if its value is an object
}

func (r *Record) score(weights []weight) (sum int) {
	for _, w := range weights {
		telling := func(v JSON) (bool, bool) { return true, !v.IsNull() && (w.nested || v.Kind() != '{') }
		if _, _, ok := find(r, w.names, telling); ok {
			sum += w.score
		}
	}
	return sum
}

// unwrap finds the record in a body. This is the object with the highest score: the body itself, or an object nested in it. An
// ID counts more than a status, because a wrapper may have its own status.
func unwrap(v JSON, wrappers []string, weights []weight) (*Record, bool) {
	top, ok := NewRecord(unwrapSingle(v))
	if !ok {
		return nil, false
	}
	return top.findObject(wrappers, weights, 2), true
}

// unwrapSingle(v) returns the item of v if v is a list with a single item. Otherwise it returns v.
func unwrapSingle(v JSON) JSON {
	if list, ok := v.Items(); ok && len(list) == 1 {
		return list[0]
	}
	return v
}

// findObject returns the object with the highest score: r, or an object nested in it, as in {"data":{"generation":{…}}}. It
// searches only members whose names are in wrappers, down to the given depth.
func (r *Record) findObject(wrappers []string, weights []weight, depth int) *Record {
	best := r
	for _, name := range wrappers {
		if inner, ok := r.object(name); ok && depth > 0 {
			if inner = inner.findObject(wrappers, weights, depth-1); inner.score(weights) > best.score(weights) {
				best = inner
			}
		}
	}
	return best
}

// findList finds the list in a body. If v is an array, it is the list. Null counts as an empty array. If v is an object, the
// list is the first of these that exists:
//   - an array or null in a member with one of the names
//   - a list nested in such a member, down to depth levels
//   - the only array among all members
//   - v itself, if its members are records keyed by ID
func findList(v JSON, names []string, weights []weight, depth int) ([]JSON, bool) {
	if items, ok := v.Items(); ok || v.IsNull() {
		return items, true
	}
	r, ok := NewRecord(v)
	if !ok || depth < 0 {
		return nil, false
	}
	for _, name := range names {
		member, there := r.get(name)
		if items, ok := member.Items(); there && (ok || member.IsNull()) {
			return items, true
		}
	}
	for _, name := range names {
		if inner, _ := r.get(name); !inner.IsNull() {
			if items, ok := findList(inner, names, weights, depth-1); ok {
				return items, true
			}
		}
	}
	members := v.Members()
	if items, ok := onlyArray(members); ok {
		return items, true
	}
	return readKeyedObject(members, weights)
}

// readKeyedObject reads an object whose member names are the IDs of records. It returns the records sorted by ID. It returns
// false if any value does not look like a record.
func readKeyedObject(members []Member, weights []weight) ([]JSON, bool) {
	items := make([]JSON, 0, len(members))
	for _, m := range members {
		r, ok := NewRecord(m.Value)
		if !ok || r.score(weights) == 0 {
			return nil, false
		}
		item := m.Value
		if _, ok := r.get("id"); !ok {
			item = withMember("id", m.Name, m.Value)
		}
		items = append(items, item)
	}
	return items, len(items) > 0
}

func onlyArray(members []Member) (only []JSON, found bool) {
	for _, m := range members {
		if items, ok := m.Value.Items(); ok {
			if found {
				return nil, false
			}
			only, found = items, true
		}
	}
	return only, found
}

// withMember returns a copy of object with an additional first member. The member has the given name, and the string text as
// its value.
func withMember(name, text string, object JSON) JSON {
	member, _ := json.Marshal(map[string]string{name: text})
	if len(object) == len("{}") {
		return JSON(member)
	}
	return JSON(member[:len(member)-1]) + "," + object[1:]
}
