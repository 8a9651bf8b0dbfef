package catalog

import (
	"maps"
	"reflect"
	"slices"
)

// list looks for a list, and tells where it is.
func (s *survey) list(part, table string, known []string, weights []weight) (items []any, at string, ok bool) {
	items, ok = findList(s.value, known, weights)
	if !ok {
		s.add(Finding{Part: part, Fault: "more than one array, or none, and none under a name of " + table, Cures: s.arrays(table, known, weights)})
		return nil, "", false
	}
	where, at := "the body itself", "[]"
	if members, isObject := s.value.(map[string]any); isObject {
		where, at = "an object keyed by id", "{}"
		if path, found := pathOf(members, reflect.ValueOf(items), 0); found && len(items) > 0 {
			where, at = path, path+"[]"
		}
	}
	if len(items) == 0 {
		where = "an empty list"
	}
	s.add(Finding{Part: part, Where: where})
	return items, at, true
}

// arrays are the names to add for the arrays that may be the list: those of records that
// look right, else those of any objects.
func (s *survey) arrays(table string, known []string, weights []weight) []Cure {
	var right, objects []Cure
	for path, r := range s.objects() {
		for _, name := range slices.Sorted(maps.Keys(r.members)) {
			items, _ := r.members[name].([]any)
			if len(items) == 0 {
				continue
			}
			first, isObject := newRecord(items[0])
			cures := toAdd(append(path[:len(path):len(path)], name), known, table)
			switch {
			case isObject && first.score(weights) > 0 && right == nil:
				right = cures
			case isObject && objects == nil:
				objects = cures
			}
		}
	}
	if right != nil {
		return right
	}
	return objects
}

// toAdd are the names of a path that a table does not have.
func toAdd(path, known []string, table string) (cures []Cure) {
	for _, name := range path {
		if !slices.Contains(known, fold(name)) {
			cures = append(cures, Cure{Table: table, Line: quote(name)})
		}
	}
	return cures
}
