package doctor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
)

// body is the body of an answer.
type body struct{ value catalog.JSON }

// at is the path of an object of the body, as a prefix of its members.
func (b body) at(target catalog.JSON) string {
	path, found := pathOf(b.value, target, 0)
	if !found || path == "" {
		return path
	}
	return path + "."
}

// pathOf is the path of a part of a value: of the very part, and not of one that is equal.
func pathOf(v, target catalog.JSON, depth int) (string, bool) {
	if len(target) > 0 && &v[0] == &target[0] {
		return "", true
	}
	if depth > 3 {
		return "", false
	}
	for _, m := range v.Members() {
		if below, ok := pathOf(m.Value, target, depth+1); ok {
			return strings.TrimSuffix(m.Name+"."+below, "."), true
		}
	}
	return "", false
}

// pathOfList is the path of the array that some items are of.
func pathOfList(v catalog.JSON, items []catalog.JSON, depth int) (string, bool) {
	if own, isList := v.Items(); isList {
		return "", len(own) > 0 && len(items) > 0 && &own[0][0] == &items[0][0]
	}
	if depth > 3 {
		return "", false
	}
	for _, m := range v.Members() {
		if below, ok := pathOfList(m.Value, items, depth+1); ok {
			return strings.TrimSuffix(m.Name+"."+below, "."), true
		}
	}
	return "", false
}

// searchWrapped looks for a part below wrappers that the rules do not know. Nil where it is in no
// object of the body.
func (b body) searchWrapped(sl slot, wrappers catalog.Rule) []Fix {
	var best []Fix
	for path, r := range b.objects() {
		var fixes []Fix
		for _, name := range path {
			if !slices.Contains(wrappers.Names, catalog.Fold(name)) {
				fixes = append(fixes, Fix{Table: wrappers.Table, Line: quote(name)})
			}
		}
		if _, ok := sl.Find(r); !ok {
			names := sl.candidates(r, nil)
			if len(names) == 0 {
				continue
			}
			fixes = append(fixes, sl.fix(names[0]))
		}
		if len(fixes) > 0 && (best == nil || len(fixes) < len(best)) {
			best = fixes
		}
	}
	return best
}

// arrays are the names to add for the arrays that may be the list: those of records that
// look right, else those of any objects.
func (b body) arrays(form catalog.Form) []Fix {
	var right, objects []Fix
	for path, r := range b.objects() {
		for _, m := range r.Sent().Members() {
			items, _ := m.Value.Items()
			if len(items) == 0 {
				continue
			}
			first, isObject := catalog.NewRecord(items[0])
			fixes := toAdd(append(path[:len(path):len(path)], m.Name), form.Lists)
			switch {
			case isObject && form.Fits(first) && right == nil:
				right = fixes
			case isObject && objects == nil:
				objects = fixes
			}
		}
	}
	if right != nil {
		return right
	}
	return objects
}

// toAdd are the names of a path that a table does not have.
func toAdd(path []string, known catalog.Rule) (fixes []Fix) {
	for _, name := range path {
		if !slices.Contains(known.Names, catalog.Fold(name)) {
			fixes = append(fixes, Fix{Table: known.Table, Line: quote(name)})
		}
	}
	return fixes
}

// objects goes through the objects of the body that the rules can be made to reach.
func (b body) objects() func(yield func([]string, *catalog.Record) bool) {
	return func(yield func([]string, *catalog.Record) bool) {
		var walk func(v catalog.JSON, path []string) bool
		walk = func(v catalog.JSON, path []string) bool {
			r, ok := catalog.NewRecord(v)
			if !ok || len(path) > 2 {
				return true
			}
			if !yield(path, r) {
				return false
			}
			for _, m := range v.Members() {
				if !walk(m.Value, append(slices.Clone(path), m.Name)) {
					return false
				}
			}
			return true
		}
		walk(b.value, nil)
	}
}

// shape says of which type a value is, and never what it is.
func shape(v catalog.JSON) string {
	switch v[0] {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a text"
	case '[':
		return "a list"
	case '{':
		return "an object"
	}
	if bytes.ContainsAny(v, ".eE") {
		return "a number with decimals"
	}
	return "a whole number"
}

// quote writes a name as Go. Names come from outside.
func quote(name string) string { return fmt.Sprintf("%q", clamp(name)) }

// clamp cuts a long name.
func clamp(name string) string {
	const limit = 64
	if len(name) <= limit {
		return name
	}
	return strings.ToValidUTF8(name[:limit], "")
}
