package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// The parts of each record, beside the names of the rules: what they must be, and what a
// name that is not known is likely to have in it.

func accountSlot() slot {
	return slot{
		part: "balance", table: "balanceNames", names: balanceNames, want: "a whole number of cents",
		reads: readable(asInteger), hints: []string{"balanc", "credit", "fund", "cent", "remain", "wallet", "money"}, needed: true,
	}
}

func priceSlot() slot {
	return slot{
		part: "price", table: "priceCentsNames", names: slices.Concat(priceCentsNames, priceNames), want: "a whole number of cents",
		reads: readable(asInteger), hints: []string{"price", "cost", "cent", "amount", "total", "fee", "charge", "quote", "sum"}, needed: true,
	}
}

func modelSlots(detail bool) []slot {
	slots := []slot{
		{part: "model id", table: "modelIDNames", names: modelIDNames, want: "a text or a whole number", reads: readable(asID), hints: []string{"id", "slug", "ref", "code"}, needed: true},
		{part: "model name", table: "modelNameNames", names: modelNameNames, want: "a text", reads: readable(asWord), hints: []string{"name", "title", "label"}},
		{part: "model description", table: "descriptionNames", names: descriptionNames, want: "a text", reads: readable(asWord), hints: []string{"descr", "about", "summary"}},
	}
	if detail {
		slots = append(slots, slot{
			part: "input fields", table: "fieldListNames", names: fieldListNames, want: "a list or an object of fields",
			reads: func(v any) bool { _, ok := readFields(copied(v)); return ok && scalarFree(v) }, hints: []string{"field", "input", "param", "arg", "knob", "option", "setting", "schema"}, needed: true,
		})
	}
	return slots
}

// scalarFree reports whether a value can be a list of fields: it has members.
func scalarFree(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

func generationSlots() []slot {
	return []slot{
		{part: "render id", table: "generationIDNames", names: generationIDNames, want: "a text or a whole number", reads: readable(asID), hints: []string{"id", "ref", "uuid", "ticket", "number"}, needed: true},
		{part: "status", table: "statusNames", names: statusNames, want: "a word", reads: statusLike, hints: []string{"stat", "phase", "stage", "progress", "condition"}, needed: true},
		{part: "model of a render", table: "modelOfNames", names: modelOfNames, want: "a text or a whole number", reads: readable(asID), hints: []string{"model", "engine"}},
		{part: "cost", table: "costNames", names: costNames, want: "a whole number of cents", reads: readable(asInteger), hints: []string{"cost", "cent", "charge", "price", "paid"}},
		{part: "order time", table: "createTimeNames", names: createTimeNames, want: "a time that timeLayouts has", reads: readable(asTime), hints: []string{"creat", "submit", "order", "queued", "born", "added"}},
		{part: "inputs", table: "inputsNames", names: inputsNames, want: "an object", reads: readable(as[map[string]any]), hints: []string{"input", "param", "arg"}},
	}
}

// statusLike reports whether a value can be a status: text, or a number that stands for one.
func statusLike(value any) bool {
	_, isText := asWord(value)
	return isText
}

func (s *survey) account() {
	r, ok := unwrap(s.value, accountWrappers, accountWeights)
	if !ok {
		s.add(Finding{Part: "account", Fault: "the body is " + shape(s.value) + ", and not an object: no line cures that"})
		return
	}
	s.money(r, accountSlot(), accountWrappers, "accountWrappers")
}

func (s *survey) quote() {
	if _, ok := asInteger(s.value); ok {
		s.add(Finding{Part: "price", Where: "the body itself"})
		return
	}
	r, ok := unwrap(s.value, quoteWrappers, quoteWeights)
	if !ok {
		s.add(Finding{Part: "price", Fault: "the body is " + shape(s.value) + ", and neither an object nor a whole number of cents: no line cures that"})
		return
	}
	s.money(r, priceSlot(), quoteWrappers, "quoteWrappers")
	if _, read := readPrice(s.value); !read && len(s.found) > 0 && s.found[0].Fault == "" {
		s.found[0].Fault = "two members that could be the price do not agree: which one is charged only the catalog's operator can say"
	}
}

// money looks for an amount, and below wrappers that are not known.
func (s *survey) money(r record, sl slot, wrappers []string, table string) {
	at := s.at(r.members)
	if f, odd := foreignUnit(r, at); odd {
		s.add(f)
		return
	}
	s.look(r, at, []slot{sl})
	last := &s.found[len(s.found)-1]
	if last.Fault != "" && len(last.Cures) == 0 && last.Where == "" {
		last.Cures = s.hunt(sl, wrappers, table)
	}
}

// foreignUnit finds a currency or a unit that are not euro cents.
func foreignUnit(r record, at string) (Finding, bool) {
	if !inOtherUnits(r) {
		return Finding{}, false
	}
	if unit, name, ok := find(r, unitNames, asWord); ok && !slices.Contains(centUnits, fold(unit)) {
		return Finding{
			Part: "unit", Where: at + r.folded[name], Fault: quote(unit) + " is not known as a name of euro cents",
			Cures: []Cure{{Table: "centUnits", Line: quote(unit), Note: "only if it means euro cents"}},
		}, true
	}
	_, name, _ := find(r, currencyNames, asWord)
	return Finding{Part: "currency", Where: at + r.folded[name], Fault: "amounts are not in EUR: no line cures that, as nothing is converted"}, true
}

func (s *survey) models() {
	items, at, ok := s.list("list of models", "modelListNames", modelListNames, modelWeights)
	if !ok {
		return
	}
	for _, item := range items {
		if _, ok := asID(item); ok {
			s.add(Finding{Part: "model id", Where: at + " itself"})
			continue
		}
		if r, ok := unwrap(item, modelWrappers, modelWeights); ok {
			s.look(r, at+".", modelSlots(false))
			s.output(r, at+".")
		}
	}
}

func (s *survey) model() {
	r, ok := unwrap(s.value, modelWrappers, modelWeights)
	slots := modelSlots(true)
	if !ok || r.score(modelWeights) == 0 {
		s.add(Finding{Part: "model", Fault: "no record of a model in the body", Cures: s.hunt(slots[0], modelWrappers, "modelWrappers")})
		return
	}
	at := s.at(r.members)
	if top, ok := newRecord(s.value); ok && at != "" {
		if name, ok := slots[3].in(top); ok { // fields may stand beside the record
			s.add(Finding{Part: slots[3].part, Where: name})
			s.fields(top, name)
			slots = slots[:3]
		}
	}
	s.look(r, at, slots)
	s.output(r, at)
	if len(slots) > 3 {
		if name, ok := slots[3].in(r); ok {
			s.fields(r, name)
		}
	}
}

// output looks at the word for what a model makes.
func (s *survey) output(r record, at string) {
	if kind, name, ok := find(r, outputNames, outputKind); ok {
		s.add(Finding{Part: "what it makes", Where: at + r.folded[name], Value: map[OutputKind]string{OutputFile: "a file", OutputText: "a text"}[kind]})
		return
	}
	if said, name, ok := find(r, outputNames, asWord); ok {
		s.add(Finding{
			Part: "what it makes", Where: at + r.folded[name], Fault: quote(said) + " is no word that is known", Hint: true,
			Cures: []Cure{{Table: "outputKinds", Line: quote(strings.ToLower(said)) + ": OutputFile", Note: "or OutputText"}},
		})
	}
}

// fields looks at the words for the types of inputs.
func (s *survey) fields(r record, name string) {
	where := strings.TrimSuffix(s.at(r.members)+name, ".")
	for _, field := range fieldRecords(r.members[name]) {
		if _, _, ok := find(field, fieldTypeNames, fieldType); ok {
			continue
		}
		if said, name, ok := find(field, fieldTypeNames, asWord); ok {
			s.add(Finding{
				Part: "type of an input", Where: where + "[]." + field.folded[name], Fault: quote(said) + " is no word that is known", Hint: true,
				Cures: []Cure{{Table: "fieldTypes", Line: quote(strings.ToLower(said)) + ": FieldString", Note: "or the type that it means"}},
			})
		}
	}
}

// fieldRecords are the descriptions of input fields, by the shapes that are read.
func fieldRecords(value any) (fields []record) {
	items, _ := value.([]any)
	if members, ok := value.(map[string]any); ok {
		if r, ok := newRecord(members); ok {
			if properties, _, ok := find(r, propertiesNames, as[map[string]any]); ok {
				members = properties
			}
		}
		for _, member := range members {
			items = append(items, member)
		}
	}
	for _, item := range items {
		if r, ok := newRecord(item); ok {
			fields = append(fields, r)
		}
	}
	return fields
}

func (s *survey) generations() {
	items, at, ok := s.list("list of renders", "generationListNames", generationListNames, generationWeights)
	if !ok {
		return
	}
	for _, item := range items {
		if r, _, ok := findGeneration(item, ""); ok {
			s.render(r, at+".")
		}
	}
}

func (s *survey) generation() {
	r, _, ok := findGeneration(s.value, "")
	if !ok || r.score(generationWeights) == 0 || isEnvelope(r) {
		s.add(Finding{
			Part: "render", Fault: "no record with a status or an identifier in the body",
			Cures: s.hunt(generationSlots()[1], generationWrappers, "generationWrappers"),
		})
		return
	}
	s.render(r, s.at(r.members))
}

// render looks at one record of a render.
func (s *survey) render(r record, at string) {
	slots := generationSlots()
	s.look(r, at, slots)
	if name, ok := slots[1].in(r); ok {
		said, _ := asWord(r.members[name])
		s.statusWord(r, at+name, said)
	}
}

// statusWord looks up a status. What an unknown one means shows in what stands beside it.
func (s *survey) statusWord(r record, where, said string) {
	if state := stateOf(said); state != StateUnrecognized {
		s.add(Finding{Part: "status word", Where: where, Value: quote(said) + " is " + state.String()})
		return
	}
	guess := "StateRunning"
	own, _ := newRecord(copied(r.members))
	if _, _, ok := find(r, slices.Concat(contentURLNames, textOutputNames), asWord); ok {
		guess = "StateSucceeded"
	} else if takeFailure(own) != "" {
		guess = "StateFailed"
	}
	normal := statusStyle.Replace(strings.ToLower(strings.TrimSpace(said)))
	s.add(Finding{
		Part: "status word", Where: where, Fault: quote(said) + " is no word that is known: a render in it is looked at for ever",
		Cures: []Cure{{Table: "states", Line: fmt.Sprintf("%s: %s", quote(normal), guess), Note: "or the state that it means"}},
	})
}

// copied is a copy of a value, for readers that take out what they have read.
func copied(value any) any {
	switch v := value.(type) {
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = copied(item)
		}
		return list
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, member := range v {
			members[name] = copied(member)
		}
		return members
	}
	return value
}
