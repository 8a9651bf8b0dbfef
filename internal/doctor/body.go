package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
)

// body is the body of an answer.
type body struct{ value any }

// at is the path of an object or a list of the body, as a prefix of its members.
func (b body) at(target any) string {
	path, found := pathOf(b.value, reflect.ValueOf(target), 0)
	if !found || path == "" {
		return path
	}
	return path + "."
}

func pathOf(value any, target reflect.Value, depth int) (string, bool) {
	if v := reflect.ValueOf(value); v.IsValid() && v.Kind() == target.Kind() && v.Pointer() == target.Pointer() {
		return "", true
	}
	members, ok := value.(map[string]any)
	if !ok || depth > 3 {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch members[name].(type) {
		case map[string]any, []any:
			if below, ok := pathOf(members[name], target, depth+1); ok {
				return strings.TrimSuffix(name+"."+below, "."), true
			}
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
		for _, name := range slices.Sorted(maps.Keys(r.Members())) {
			items, _ := r.Members()[name].([]any)
			if len(items) == 0 {
				continue
			}
			first, isObject := catalog.NewRecord(items[0])
			fixes := toAdd(append(path[:len(path):len(path)], name), form.Lists)
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
func (b body) objects() func(yield func([]string, catalog.Record) bool) {
	return func(yield func([]string, catalog.Record) bool) {
		var walk func(value any, path []string) bool
		walk = func(value any, path []string) bool {
			r, ok := catalog.NewRecord(value)
			if !ok || len(path) > 2 {
				return true
			}
			if !yield(path, r) {
				return false
			}
			for _, name := range slices.Sorted(maps.Keys(r.Members())) {
				if !walk(r.Members()[name], append(slices.Clone(path), name)) {
					return false
				}
			}
			return true
		}
		walk(b.value, nil)
	}
}

// shape says of which type a value is, and never what it is.
func shape(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "a number with decimals"
		}
		return "a whole number"
	case []any:
		return "a list"
	}
	return "an object"
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
