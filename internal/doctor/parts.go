package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
)

// slot is a part of a record, and what is said where it is not found.
type slot struct {
	catalog.Rule
	part   string
	want   string   // what it must be, in words
	hints  []string // what a name that is not known probably has in it
	needed bool     // Easel can't do without
}

// The parts of each record, beside the names of the rules: what they must be, and what a
// name that is not known is likely to have in it.

func accountSlot(rules catalog.RuleSet) slot {
	return slot{
		Rule: rules.Balance, part: "balance", want: "a whole number of cents", hints: []string{"balanc", "credit", "fund", "cent", "remain", "wallet", "money"}, needed: true,
	}
}

func priceSlot(rules catalog.RuleSet) slot {
	return slot{
		Rule: rules.Price, part: "price", want: "a whole number of cents", hints: []string{"price", "cost", "cent", "amount", "total", "fee", "charge", "quote", "sum"}, needed: true,
	}
}

func modelSlots(rules catalog.RuleSet, detail bool) []slot {
	slots := []slot{
		{Rule: rules.ModelID, part: "model id", want: "a text or a whole number", hints: []string{"id", "slug", "ref", "code"}, needed: true},
		{Rule: rules.ModelName, part: "model name", want: "a text", hints: []string{"name", "title", "label"}},
		{Rule: rules.ModelDescription, part: "model description", want: "a text", hints: []string{"descr", "about", "summary"}},
	}
	if detail {
		slots = append(slots, slot{
			Rule: rules.InputFields, part: "input fields", want: "a list or an object of fields", hints: []string{"field", "input", "param", "arg", "knob", "option", "setting", "schema"}, needed: true,
		})
	}
	return slots
}

func generationSlots(rules catalog.RuleSet) []slot {
	return []slot{
		{Rule: rules.GenerationID, part: "render id", want: "a text or a whole number", hints: []string{"id", "ref", "uuid", "ticket", "number"}, needed: true},
		{Rule: rules.Status, part: "status", want: "a word", hints: []string{"stat", "phase", "stage", "progress", "condition"}, needed: true},
		{Rule: rules.ModelOf, part: "model of a render", want: "a text or a whole number", hints: []string{"model", "engine"}},
		{Rule: rules.Cost, part: "cost", want: "a whole number of cents", hints: []string{"cost", "cent", "charge", "price", "paid"}},
		{Rule: rules.CreateTime, part: "order time", want: "a time that timeLayouts has", hints: []string{"creat", "submit", "order", "queued", "born", "added"}},
		{Rule: rules.Inputs, part: "inputs", want: "an object", hints: []string{"input", "param", "arg"}},
	}
}

// missing says what there is in place of a part, and whether that is worth a word.
func (sl slot) missing(r *catalog.Record, at string, claimed []string) (Finding, bool) {
	f := Finding{Part: sl.part, Hint: !sl.needed}
	for _, name := range sl.Names {
		if m := r.Member(name); !m.Value.IsNull() {
			f.Where = at + m.Name
			f.Fault = fmt.Sprintf("it is %s, and not %s: no line cures that", shape(m.Value), sl.want)
			return f, true
		}
	}
	names := sl.candidates(r, claimed)
	for _, name := range names {
		f.Fixes = append(f.Fixes, sl.fix(name))
	}
	f.Fault = "under none of the names of " + sl.Table
	return f, sl.needed || len(names) > 0
}

func (sl slot) fix(name string) Fix {
	return Fix{Table: sl.Table, Line: quote(name)}
}

// candidates are the members that may be the part: those whose name says so, else the only
// one that could be read.
func (sl slot) candidates(r *catalog.Record, claimed []string) []string {
	var telling, others []string
	members := r.Sent().Members()
	key := func(m catalog.Member) string { return catalog.Fold(m.Name) }
	slices.SortStableFunc(members, func(a, b catalog.Member) int { return strings.Compare(key(a), key(b)) })
	for _, m := range slices.CompactFunc(members, func(a, b catalog.Member) bool { return key(a) == key(b) }) {
		if slices.Contains(claimed, key(m)) || catalog.IsSecret(key(m)) || m.Value.IsNull() || !sl.Reads(m.Value) {
			continue
		}
		if slices.ContainsFunc(sl.hints, func(hint string) bool { return strings.Contains(key(m), hint) }) {
			telling = append(telling, m.Name)
		} else {
			others = append(others, m.Name)
		}
	}
	if len(telling) == 0 && sl.needed && len(others) == 1 {
		return others
	}
	return telling
}
