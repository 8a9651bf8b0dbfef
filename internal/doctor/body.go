package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
)

// wrapped looks for the first part below wrappers that the rules do not know. Nil where it is in no object of the body.
func (d *diagnosis) wrapped(wrappers catalog.Rule) (best []Fix) {
	for _, o := range objects(d.body, nil) {
		fixes := toAdd(o.path, wrappers)
		if _, ok := d.parts[0].Find(o.Record); !ok {
			names := d.parts[0].candidates(o.Record, nil)
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
func (d *diagnosis) arrays() (best []Fix) {
	for _, o := range objects(d.body, nil) {
		for _, m := range o.Sent().Members() {
			items, _ := m.Value.Items()
			first, isObject := catalog.NewRecord(append(items, catalog.JSON("0"))[0])
			if fixes := toAdd(append(slices.Clone(o.path), m.Name), d.form.Lists); isObject && d.form.Fits(first) {
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

// object is an object of the body, and the names that lead to it.
type object struct {
	*catalog.Record
	path []string
}

// objects are those of a value that the rules can be made to reach.
func objects(v catalog.JSON, path []string) (all []object) {
	r, ok := catalog.NewRecord(v)
	if !ok || len(path) > 2 {
		return nil
	}
	all = []object{{r, path}}
	for _, m := range v.Members() {
		all = append(all, objects(m.Value, append(slices.Clone(path), m.Name))...)
	}
	return all
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
