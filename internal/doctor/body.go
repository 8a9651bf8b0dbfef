package doctor

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
)

// wrapped looks for the first part below wrappers that the rules do not know. Nil where it is in no object of the body.
func (d *diagnosis) wrapped(wrappers catalog.Rule) (best []Fix) {
	for path, r := range objects(d.body, nil) {
		fixes := toAdd(path, wrappers)
		if _, ok := d.parts[0].Find(r); !ok {
			names := d.parts[0].candidates(r, nil)
			if len(names) == 0 {
				continue
			}
			fixes = append(fixes, Fix{Table: d.parts[0].Table, Line: quote(names[0])})
		}
		if len(fixes) > 0 && (best == nil || len(fixes) < len(best)) {
			best = fixes
		}
	}
	return best
}

// arrays are the names to add for the array that may be the list: one of records that look right, else one of objects.
func (d *diagnosis) arrays(form catalog.Form) (best []Fix) {
	for path, r := range objects(d.body, nil) {
		for _, m := range r.Sent().Members() {
			items, _ := m.Value.Items()
			if len(items) == 0 {
				continue
			}
			first, isObject := catalog.NewRecord(items[0])
			if fixes := toAdd(append(slices.Clone(path), m.Name), form.Lists); isObject && form.Fits(first) {
				return fixes
			} else if isObject && best == nil {
				best = fixes
			}
		}
	}
	return best
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

// objects goes through the objects of a value that the rules can be made to reach, each with its path.
func objects(v catalog.JSON, path []string) iter.Seq2[[]string, *catalog.Record] {
	return func(yield func([]string, *catalog.Record) bool) {
		r, ok := catalog.NewRecord(v)
		if !ok || len(path) > 2 || !yield(path, r) {
			return
		}
		for _, m := range v.Members() {
			for below, r := range objects(m.Value, append(slices.Clone(path), m.Name)) {
				if !yield(below, r) {
					return
				}
			}
		}
	}
}

// shape says of which type a value is, and never what it is.
func shape(v catalog.JSON) string {
	shapes := map[byte]string{'n': "null", 't': "true or false", 'f': "true or false", '"': "a text", '[': "a list", '{': "an object"}
	return cmp.Or(shapes[v[0]], "a number, which must be whole and small enough")
}

// quote writes a name as Go, not too long. Names come from outside.
func quote(name string) string {
	return fmt.Sprintf("%q", strings.ToValidUTF8(name[:min(len(name), 64)], ""))
}
