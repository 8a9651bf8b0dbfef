package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/terminal"
)

// Finding is one result of a diagnosis. If a part of a response was found, the finding contains the name of the JSON member.
// Otherwise it contains the reason, and the rules that would make the part readable.
type Finding struct {
	Part  string `json:"part"`            // part of the response, such as "price"
	Where string `json:"where,omitempty"` // name of the member as the catalog sent it; empty if none was found
	Value string `json:"value,omitempty"` // meaning of the part's word; empty if the part is not a word that a table maps
	Fault string `json:"fault,omitempty"` // reason why the part can't be read; empty if it can be read
	Hint  bool   `json:"hint,omitempty"`  // whether Easel works without the part, because the specification does not promise it
	Fixes []Fix  `json:"cures,omitempty"` // rules that would make the part readable; empty if no rule would
	Count int    `json:"count"`           // number of records with this finding
}

// Fix is one line to add to the rules.
type Fix struct {
	Table string `json:"table"`          // variable in [catalog.RulesFile] to extend
	Line  string `json:"line,omitempty"` // Go code to add to the variable
	Note  string `json:"note,omitempty"` // caution, if any
}

// String returns the finding for display, with its fixes.
func (f Finding) String() string {
	said := slices.DeleteFunc([]string{f.Where, f.Value, f.Fault}, func(text string) bool { return text == "" })
	text := fmt.Sprintf("    %-18s  %s", f.Part, terminal.OneLine(strings.Join(said, ": ")))
	if f.Count > 1 {
		text += fmt.Sprintf(" (%d times)", f.Count)
	}
	for _, c := range f.Fixes {
		text += "\n      fix: in " + catalog.RulesFile + " add " + terminal.OneLine(c.Line) + " to " + c.Table
		if c.Note != "" {
			text += " (" + c.Note + ")"
		}
	}
	return text + "\n"
}

// part is a part of a record, with texts for findings if the part is missing.
type part struct {
	catalog.Rule
	name, want string // want describes the required value
	hints      string // substrings that the name of an unknown member is likely to contain
	needed     bool   // whether Easel requires the part
}

const (
	cents = "a whole number of cents"
	id    = "a text or a whole number"
)

// reading describes the rules that read a route's response.
type reading struct {
	name  string // name of the response in the report
	many  bool   // whether the response is a list of records
	form  catalog.Form
	parts []part // parts of a record; an object without the first part is not such a record
}

func readings(r catalog.RuleSet) map[string]reading {
	models := []part{
		{r.ModelID, "model id", id, "id slug ref code", true},
		{r.ModelName, "model name", "a text", "name title label", false},
		{r.ModelDescription, "model description", "a text", "descr about summary", false},
		{r.InputFields, "input fields", "a list or an object of fields", "field input param arg knob option setting schema", true},
	}
	return map[string]reading{
		routeAccount: {"account", false, r.Account, []part{{r.Balance, "balance", cents, "balanc credit fund cent remain wallet money", true}}},
		routeQuote:   {"price", false, r.Quote, []part{{r.Price, "price", cents, "price cost cent amount total fee charge quote sum", true}}},
		routeModels:  {"list of models", true, r.Model, models[:3]},
		routeModel:   {"model", false, r.Model, models},
		routeGenerations: {"list of renders", true, r.Generation, []part{
			{r.Status, "status", "a word", "stat phase stage progress condition", true},
			{r.GenerationID, "render id", id, "id ref uuid ticket number", true},
			{r.ModelOf, "model of a render", id, "model engine", false},
			{r.Cost, "cost", cents, "cost cent charge price paid", false},
			{r.CreateTime, "order time", "a time that timeLayouts has", "creat submit order queued born added", false},
			{r.Inputs, "inputs", "an object", "input param arg", false},
		}},
	}
}

// diagnosis is the diagnosis of one response body.
type diagnosis struct {
	reading
	body  catalog.JSON
	rules catalog.RuleSet
	found []Finding
}

// Diagnose explains how the reading rules read the body of a 2xx response of a route, such as "POST /quote". It returns nil for
// a route without rules. The findings do not contain the API key of cred. They contain no values except words of tables.
func Diagnose(route string, answer []byte, cred catalog.Credential) []Finding {
	body, err := catalog.ReadBody(answer, cred)
	if err != nil {
		return []Finding{{Part: "body", Fault: "invalid JSON", Count: 1}}
	}
	rules := catalog.Rules()
	d := &diagnosis{body: body, rules: rules, reading: readings(rules)[route]}
	switch {
	case d.parts == nil:
	case d.many:
		d.list()
	default:
		d.record()
	}
	if _, read := catalog.ReadPrice(body); d.name == "price" && !read && !d.parts[0].Reads(body) && len(d.found) == 1 && d.found[0].Fault == "" {
		d.found[0].Fault = "two possible prices differ: ask the catalog's operator which one is charged"
	}
	return d.found
}

// record inspects the record in the body, or searches for it in unknown wrappers.
func (d *diagnosis) record() {
	r, ok := d.form.Record(d.body)
	switch fixes := d.wrapped(d.form.Wrappers); {
	case d.name == "price" && d.parts[0].Reads(d.body):
		d.add(Finding{Part: d.name, Where: "the body itself"})
	case ok && (d.form.Fits(r) || len(d.parts) == 1 && (catalog.InOtherUnits(r) || len(fixes) == 0)):
		d.inspect(r, "")
	default:
		d.add(Finding{Part: d.name, Fault: "no " + d.name + " found: the body is " + shape(d.body), Fixes: fixes})
	}
}

// list searches for the list in the body, and inspects each record in the list.
func (d *diagnosis) list() {
	items, ok := d.form.List(d.body)
	if !ok {
		d.add(Finding{Part: d.name, Fault: "list not found: the body has no array or several arrays, and none has a name in " + d.form.Lists.Table, Fixes: d.arrays()})
		return
	}
	d.add(Finding{Part: d.name, Where: fmt.Sprintf("%d records", len(items))})
	for _, item := range items {
		if r, ok := d.form.Record(item); ok {
			d.inspect(r, "[].")
		} else if d.parts[0].Reads(item) {
			d.add(Finding{Part: d.parts[0].name, Where: "[] itself"})
		}
	}
}

// wrapped searches unknown wrapper objects for the first part. It returns the smallest set of fixes that makes the part
// readable, or nil if no wrapper contains it.
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

// arrays returns the fixes for the array that is most likely the list. It prefers an array of records to an array of other
// objects.
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

// inspect looks for the parts of a record, and for members that may be such a part under an unknown name.
func (d *diagnosis) inspect(r *catalog.Record, in string) {
	if d.otherUnit(r, in) {
		return
	}
	var claimed []string
	for _, p := range d.parts {
		claimed = append(claimed, p.Names...)
	}
	top, isObject := catalog.NewRecord(d.body)
	for _, p := range d.parts {
		by, ok := p.Find(r)
		if !ok && isObject && in == "" && p.Table == d.rules.InputFields.Table { // fields may be outside the record, in the body
			by, ok = p.Find(top)
		}
		if !ok {
			d.missing(p, r, in, claimed)
			continue
		}
		d.add(Finding{Part: p.name, Where: in + by.Name})
		if p.Table == d.rules.Status.Table {
			d.status(r, in+by.Name, by.Value)
		}
	}
}

// otherUnit reports whether the amounts have a currency or unit other than euro cents. If so, it adds a finding.
func (d *diagnosis) otherUnit(r *catalog.Record, in string) bool {
	if len(d.parts) > 1 || !catalog.InOtherUnits(r) {
		return false
	}
	by, found := d.rules.Unit.Find(r)
	if unit, _ := catalog.AsWord(by.Value); found && !catalog.IsCentUnit(unit) {
		fix := Fix{Table: "centUnits", Line: quote(unit), Note: "only if it means euro cents"}
		d.add(Finding{Part: "unit", Where: in + by.Name, Fault: quote(unit) + " is not a known name of euro cents", Fixes: []Fix{fix}})
		return true
	}
	by, _ = d.rules.Currency.Find(r)
	d.add(Finding{Part: "currency", Where: in + by.Name, Fault: "amounts are not in EUR: no rule fixes this, because amounts are not converted"})
	return true
}

// missing adds a finding for a part that was not found, if Easel needs the part or there are likely candidates.
func (d *diagnosis) missing(p part, r *catalog.Record, in string, claimed []string) {
	for _, name := range p.Names {
		if m := r.Member(name); !m.Value.IsNull() {
			d.add(Finding{Part: p.name, Hint: !p.needed, Where: in + m.Name, Fault: "is " + shape(m.Value) + " instead of " + p.want + ": no rule fixes this"})
			return
		}
	}
	f := Finding{Part: p.name, Hint: !p.needed, Fault: "not found under any name in " + p.Table}
	for _, name := range p.candidates(r, claimed) {
		f.Fixes = append(f.Fixes, Fix{Table: p.Table, Line: quote(name)})
	}
	if p.needed || len(f.Fixes) > 0 {
		d.add(f)
	}
}

// candidates returns the names of the members that may be the part: members with a likely name or otherwise the
// only member whose value is readable as the part.
func (p part) candidates(r *catalog.Record, claimed []string) (telling []string) {
	var others []string
	seen := slices.Clone(claimed)
	for _, m := range r.Sent().Members() {
		key := catalog.Fold(m.Name)
		switch {
		case slices.Contains(seen, key) || catalog.IsSecret(key) || m.Value.IsNull() || !p.Reads(m.Value):
		case slices.ContainsFunc(strings.Fields(p.hints), func(hint string) bool { return strings.Contains(key, hint) }):
			telling = append(telling, m.Name)
		default:
			others = append(others, m.Name)
		}
		seen = append(seen, key)
	}
	if len(telling) == 0 && p.needed && len(others) == 1 {
		return others
	}
	return telling
}

// status checks a status word. If the word is unknown, status guesses its meaning from the rest of the record.
func (d *diagnosis) status(r *catalog.Record, where string, value catalog.JSON) {
	said, _ := catalog.AsWord(value)
	if state := catalog.StateOf(said); state != catalog.StateUnrecognized {
		d.add(Finding{Part: "status word", Where: where, Value: quote(said) + " is " + state.String()})
		return
	}
	guess := "StateRunning"
	if _, ok := d.rules.HasResult.Find(r); ok {
		guess = "StateSucceeded"
	} else if catalog.SaysFailure(r) {
		guess = "StateFailed"
	}
	d.add(Finding{
		Part: "status word", Where: where, Fault: quote(said) + " is not a known status: a render with this status is polled forever",
		Fixes: []Fix{{Table: "states", Line: quote(catalog.StatusKey(said)) + ": " + guess, Note: "or the state that it means"}},
	})
}

func (d *diagnosis) add(f Finding) {
	for i, other := range d.found {
		if other.Part == f.Part && other.Where == f.Where && other.Value == f.Value && other.Fault == f.Fault {
			d.found[i].Count++
			return
		}
	}
	f.Count = 1
	d.found = append(d.found, f)
}

// toAdd returns fixes that add the names in a path to a table, except names that the table has already.
func toAdd(path []string, known catalog.Rule) (fixes []Fix) {
	for _, name := range path {
		if !slices.Contains(known.Names, catalog.Fold(name)) {
			fixes = append(fixes, Fix{Table: known.Table, Line: quote(name)})
		}
	}
	return fixes
}

// object is an object in the body, with its path.
type object struct {
	*catalog.Record
	path []string
}

// objects returns the objects in a value, at the depths that the rules can reach.
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

// shape describes the type of a value, but not its content.
func shape(v catalog.JSON) string {
	shapes := map[byte]string{'n': "null", 't': "true or false", 'f': "true or false", '"': "a text", '[': "a list", '{': "an object"}
	return cmp.Or(shapes[v[0]], "a number, which must be whole and small enough")
}

// quote returns a name as a Go string literal of limited length, because names are untrusted.
func quote(name string) string {
	return fmt.Sprintf("%q", strings.ToValidUTF8(name[:min(len(name), 64)], ""))
}
