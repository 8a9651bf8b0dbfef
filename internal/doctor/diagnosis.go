package doctor

import (
	"fmt"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Finding is one thing that an answer of the catalog shows: under which name the rules
// have found a part of it, or why they have not and which line would.
type Finding struct {
	// Part is what it is about, such as "price".
	Part string `json:"part"`
	// Where is the member that holds it, as sent and with its wrappers: "data[].cost".
	// "" where nothing was found.
	Where string `json:"where,omitempty"`
	// Value is a word as the rules read it, "" where the part is not a word of a table.
	Value string `json:"value,omitempty"`
	// Fault says why it can't be read, "" where it can.
	Fault string `json:"fault,omitempty"`
	// Hint says that Easel works without it: the specification does not promise it.
	Hint bool `json:"hint,omitempty"`
	// Fixes are the lines that would read it; none where no line would.
	Fixes []Fix `json:"cures,omitempty"`
	// Count is in how many records it was so.
	Count int `json:"count"`
}

// Fix is one line to add to the rules.
type Fix struct {
	Table string `json:"table"`          // the variable in [catalog.RulesFile]
	Line  string `json:"line,omitempty"` // what to add to it, as Go, "" where only a person can write it
	Note  string `json:"note,omitempty"` // what to think about before, "" where it is plain
}

// Diagnose tells how the reading rules read the body of a 2xx answer of a route, such as "POST
// /quote". It gives nothing for a route that has no rules. The API key of cred is in none of its
// texts, and neither are values other than the words of tables.
func Diagnose(route string, answer []byte, cred catalog.Credential) []Finding {
	value, err := catalog.ReadBody(answer, cred)
	if err != nil {
		return []Finding{{Part: "body", Fault: "no JSON: the rules read nothing else here", Count: 1}}
	}
	d := &diagnosis{body: body{value}, rules: catalog.Rules()}
	switch route {
	case routeAccount:
		d.account()
	case routeModels:
		d.models()
	case routeModel:
		d.model()
	case routeQuote:
		d.quote()
	case routeGenerations:
		d.generations()
	case routeGeneration:
		d.generation()
	}
	return d.found
}

// diagnosis goes through one body.
type diagnosis struct {
	body
	rules catalog.RuleSet
	found []Finding
}

func (d *diagnosis) account() {
	r, ok := d.rules.Account.Record(d.value)
	if !ok {
		d.add(Finding{Part: "account", Fault: "the body is " + shape(d.value) + ", and not an object: no line cures that"})
		return
	}
	d.money(r, accountSlot(d.rules), d.rules.Account.Wrappers)
}

func (d *diagnosis) quote() {
	if d.rules.Price.Reads(d.value) {
		d.add(Finding{Part: "price", Where: "the body itself"})
		return
	}
	r, ok := d.rules.Quote.Record(d.value)
	if !ok {
		d.add(Finding{Part: "price", Fault: "the body is " + shape(d.value) + ", and neither an object nor a whole number of cents: no line cures that"})
		return
	}
	d.money(r, priceSlot(d.rules), d.rules.Quote.Wrappers)
	if _, read := catalog.ReadPrice(d.value); !read && len(d.found) > 0 && d.found[0].Fault == "" {
		d.found[0].Fault = "two members that could be the price do not agree: which one is charged only the catalog's operator can say"
	}
}

// money looks for an amount, and below wrappers that are not known.
func (d *diagnosis) money(r *catalog.Record, sl slot, wrappers catalog.Rule) {
	at := d.at(r.Sent())
	if f, odd := d.foreignUnit(r, at); odd {
		d.add(f)
		return
	}
	d.inspect(r, at, []slot{sl})
	last := &d.found[len(d.found)-1]
	if last.Fault != "" && len(last.Fixes) == 0 && last.Where == "" {
		last.Fixes = d.searchWrapped(sl, wrappers)
	}
}

// foreignUnit finds a currency or a unit that are not euro cents.
func (d *diagnosis) foreignUnit(r *catalog.Record, at string) (Finding, bool) {
	if !catalog.InOtherUnits(r) {
		return Finding{}, false
	}
	if unit, by, ok := wordOf(r, d.rules.Unit); ok && !catalog.IsCentUnit(unit) {
		return Finding{
			Part: "unit", Where: at + by.Name, Fault: quote(unit) + " is not known as a name of euro cents",
			Fixes: []Fix{{Table: "centUnits", Line: quote(unit), Note: "only if it means euro cents"}},
		}, true
	}
	by, _ := d.rules.Currency.Find(r)
	return Finding{Part: "currency", Where: at + by.Name, Fault: "amounts are not in EUR: no line cures that, as nothing is converted"}, true
}

func (d *diagnosis) models() {
	items, at, ok := d.list("list of models", d.rules.Model)
	if !ok {
		return
	}
	for _, item := range items {
		if d.rules.ModelID.Reads(item) {
			d.add(Finding{Part: "model id", Where: at + " itself"})
			continue
		}
		if r, ok := d.rules.Model.Record(item); ok {
			d.inspect(r, at+".", modelSlots(d.rules, false))
			d.output(r, at+".")
		}
	}
}

func (d *diagnosis) model() {
	r, ok := d.rules.Model.Record(d.value)
	slots := modelSlots(d.rules, true)
	if !ok || !d.rules.Model.Fits(r) {
		d.add(Finding{Part: "model", Fault: "no record of a model in the body", Fixes: d.searchWrapped(slots[0], d.rules.Model.Wrappers)})
		return
	}
	at := d.at(r.Sent())
	if top, ok := catalog.NewRecord(d.value); ok && at != "" {
		if by, ok := slots[3].Find(top); ok { // fields may stand beside the record
			d.add(Finding{Part: slots[3].part, Where: by.Name})
			d.fields(top, by)
			slots = slots[:3]
		}
	}
	d.inspect(r, at, slots)
	d.output(r, at)
	if len(slots) > 3 {
		if by, ok := slots[3].Find(r); ok {
			d.fields(r, by)
		}
	}
}

// output looks at the word for what a model makes.
func (d *diagnosis) output(r *catalog.Record, at string) {
	if by, ok := d.rules.OutputKind.Find(r); ok {
		kind, _ := catalog.OutputKindOf(r)
		d.add(Finding{Part: "what it makes", Where: at + by.Name, Value: map[catalog.OutputKind]string{catalog.OutputFile: "a file", catalog.OutputText: "a text"}[kind]})
		return
	}
	if said, by, ok := wordOf(r, d.rules.OutputKind); ok {
		d.add(Finding{
			Part: "what it makes", Where: at + by.Name, Fault: quote(said) + " is no word that is known", Hint: true,
			Fixes: []Fix{{Table: d.rules.OutputKind.Table, Line: quote(strings.ToLower(said)) + ": OutputFile", Note: "or OutputText"}},
		})
	}
}

// fields looks at the words for the types of inputs.
func (d *diagnosis) fields(r *catalog.Record, in catalog.Member) {
	where := strings.TrimSuffix(d.at(r.Sent())+in.Name, ".")
	for _, field := range catalog.FieldsOf(in.Value) {
		if _, ok := d.rules.FieldType.Find(field); ok {
			continue
		}
		if said, by, ok := wordOf(field, d.rules.FieldType); ok {
			d.add(Finding{
				Part: "type of an input", Where: where + "[]." + by.Name, Fault: quote(said) + " is no word that is known", Hint: true,
				Fixes: []Fix{{Table: d.rules.FieldType.Table, Line: quote(strings.ToLower(said)) + ": FieldString", Note: "or the type that it means"}},
			})
		}
	}
}

func (d *diagnosis) generations() {
	items, at, ok := d.list("list of renders", d.rules.Generation)
	if !ok {
		return
	}
	for _, item := range items {
		if r, ok := d.rules.Generation.Record(item); ok {
			d.record(r, at+".")
		}
	}
}

func (d *diagnosis) generation() {
	r, ok := d.rules.Generation.Record(d.value)
	if !ok || !d.rules.Generation.Fits(r) || catalog.IsEnvelope(r) {
		d.add(Finding{
			Part: "render", Fault: "no record with a status or an identifier in the body",
			Fixes: d.searchWrapped(generationSlots(d.rules)[1], d.rules.Generation.Wrappers),
		})
		return
	}
	d.record(r, d.at(r.Sent()))
}

// record looks at one record of a generation.
func (d *diagnosis) record(r *catalog.Record, at string) {
	slots := generationSlots(d.rules)
	d.inspect(r, at, slots)
	if by, ok := slots[1].Find(r); ok {
		said, _ := catalog.AsWord(by.Value)
		d.statusWord(r, at+by.Name, said)
	}
}

// statusWord looks up a status. What an unknown one means shows in what stands beside it.
func (d *diagnosis) statusWord(r *catalog.Record, where, said string) {
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
		Part: "status word", Where: where, Fault: quote(said) + " is no word that is known: a render in it is looked at for ever",
		Fixes: []Fix{{Table: "states", Line: fmt.Sprintf("%s: %s", quote(catalog.StatusKey(said)), guess), Note: "or the state that it means"}},
	})
}

// list looks for a list, and tells where it is.
func (d *diagnosis) list(part string, form catalog.Form) (items []catalog.JSON, at string, ok bool) {
	items, ok = form.List(d.value)
	if !ok {
		d.add(Finding{Part: part, Fault: "more than one array, or none, and none under a name of " + form.Lists.Table, Fixes: d.arrays(form)})
		return nil, "", false
	}
	where, at := "the body itself", "[]"
	if _, isObject := catalog.NewRecord(d.value); isObject {
		where, at = "an object keyed by id", "{}"
		if path, found := pathOfList(d.value, items, 0); found {
			where, at = path, path+"[]"
		}
	}
	if len(items) == 0 {
		where = "an empty list"
	}
	d.add(Finding{Part: part, Where: where})
	return items, at, true
}

// inspect looks for the parts of a record, and for what may be one under another name.
func (d *diagnosis) inspect(r *catalog.Record, at string, slots []slot) {
	var claimed []string
	for _, sl := range slots {
		claimed = append(claimed, sl.Names...)
	}
	for _, sl := range slots {
		if by, ok := sl.Find(r); ok {
			d.add(Finding{Part: sl.part, Where: at + by.Name})
			continue
		}
		if f, ok := sl.missing(r, at, claimed); ok {
			d.add(f)
		}
	}
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

// wordOf gives the word of the first member of a rule's names that is one.
func wordOf(r *catalog.Record, rule catalog.Rule) (word string, by catalog.Member, ok bool) {
	rule.Reads = func(v catalog.JSON) bool { _, isWord := catalog.AsWord(v); return isWord }
	by, ok = rule.Find(r)
	word, _ = catalog.AsWord(by.Value)
	return word, by, ok
}
