package catalog

import (
	"maps"
	"slices"

	"github.com/easel-grpc/easel/internal/rawjson"
)

// RulesFile is where the reading rules stand, for those who are told to add to them.
const RulesFile = "internal/catalog/rules.go"

// ReadBody reads the body of an answer as the reading rules get it, without the API key of cred.
func ReadBody(body []byte, cred Credential) (any, error) {
	value, err := decode(body)
	if err != nil {
		return nil, err
	}
	return decode(rawjson.Filtered(encoded(value), newRedactor(cred.APIKey().Reveal()).filter(), 0))
}

// Record is an object of a body. Its members are looked up by names that are written as [Fold] writes them.
type Record struct{ record }

// NewRecord makes a record of an object.
func NewRecord(value any) (Record, bool) {
	r, ok := newRecord(value)
	return Record{r}, ok
}

// Members are the members as they were sent.
func (r Record) Members() map[string]any { return r.members }

// Names are the names of all members, folded and in order.
func (r Record) Names() []string { return slices.Sorted(maps.Keys(r.folded)) }

// Member is the member of a folded name, and its name as it was sent. It is nil where there is none.
func (r Record) Member(name string) (sent string, value any) {
	value, _ = r.get(name)
	return r.folded[name], value
}

// Fold is a name without its style: costCents, cost_cents and Cost-Cents are the same.
func Fold(name string) string { return fold(name) }

// Rule is how a part of a record is found: the first of some names whose member can be read.
type Rule struct {
	Table string // the variable of [RulesFile] that holds the names
	Names []string
	Reads func(value any) bool
}

// Find gives the name, as it was sent, of the member that holds the part.
func (r Rule) Find(in Record) (sent string, ok bool) {
	_, name, ok := find(in.record, r.Names, func(v any) (bool, bool) { return true, v != nil && r.Reads(v) })
	return in.folded[name], ok
}

// readable makes a test of a reader.
func readable[T any](read func(any) (T, bool)) func(any) bool {
	return func(v any) bool {
		_, ok := read(v)
		return ok
	}
}

// Form is how records of one kind are found in a body.
type Form struct {
	Wrappers, Lists Rule // of names alone

	weights []weight
	find    func(value any) (record, bool)
}

// Record finds the record in a value that is one, or wraps one.
func (f Form) Record(value any) (Record, bool) {
	r, ok := f.find(value)
	return Record{r}, ok
}

// List finds the list of records in a body.
func (f Form) List(value any) ([]any, bool) { return findList(value, f.Lists.Names, f.weights) }

// Fits reports whether a record has at least one of the members that tell its kind.
func (f Form) Fits(r Record) bool { return r.score(f.weights) > 0 }

// RuleSet are the reading rules, for package doctor, which explains what they make of a body.
type RuleSet struct {
	Account, Quote, Model, Generation Form

	Balance, Price, Unit, Currency                                     Rule
	ModelID, ModelName, ModelDescription, InputFields                  Rule
	OutputKind, FieldType                                              Rule // a word that is known
	GenerationID, Status, ModelOf, Cost, CreateTime, Inputs, HasResult Rule
}

// Rules gives the reading rules.
func Rules() RuleSet {
	wrapped := func(wrappers []string, weights []weight) func(any) (record, bool) {
		return func(value any) (record, bool) { return unwrap(value, wrappers, weights) }
	}
	return RuleSet{
		Account: Form{
			Wrappers: Rule{Table: "accountWrappers", Names: accountWrappers},
			weights:  accountWeights, find: wrapped(accountWrappers, accountWeights),
		},
		Quote: Form{
			Wrappers: Rule{Table: "quoteWrappers", Names: quoteWrappers},
			weights:  quoteWeights, find: wrapped(quoteWrappers, quoteWeights),
		},
		Model: Form{
			Wrappers: Rule{Table: "modelWrappers", Names: modelWrappers}, Lists: Rule{Table: "modelListNames", Names: modelListNames},
			weights: modelWeights, find: wrapped(modelWrappers, modelWeights),
		},
		Generation: Form{
			Wrappers: Rule{Table: "generationWrappers", Names: generationWrappers}, Lists: Rule{Table: "generationListNames", Names: generationListNames},
			weights: generationWeights,
			find: func(value any) (record, bool) {
				r, _, ok := findGeneration(value, "")
				return r, ok
			},
		},
		Balance:  Rule{"balanceNames", balanceNames, readable(asInteger)},
		Price:    Rule{"priceCentsNames", slices.Concat(priceCentsNames, priceNames), readable(asInteger)},
		Unit:     Rule{"unitNames", unitNames, readable(asWord)},
		Currency: Rule{"currencyNames", currencyNames, readable(asWord)},

		ModelID:          Rule{"modelIDNames", modelIDNames, readable(asID)},
		ModelName:        Rule{"modelNameNames", modelNameNames, readable(asWord)},
		ModelDescription: Rule{"descriptionNames", descriptionNames, readable(asWord)},
		InputFields:      Rule{"fieldListNames", fieldListNames, func(v any) bool { _, ok := readFields(copied(v)); return ok && hasMembers(v) }},
		OutputKind:       Rule{"outputKinds", outputNames, readable(outputKind)},
		FieldType:        Rule{"fieldTypes", fieldTypeNames, readable(fieldType)},

		GenerationID: Rule{"generationIDNames", generationIDNames, readable(asID)},
		Status:       Rule{"statusNames", statusNames, readable(asWord)},
		ModelOf:      Rule{"modelOfNames", modelOfNames, readable(asID)},
		Cost:         Rule{"costNames", costNames, readable(asInteger)},
		CreateTime:   Rule{"createTimeNames", createTimeNames, readable(asTime)},
		Inputs:       Rule{"inputsNames", inputsNames, readable(asObject)},
		HasResult:    Rule{"contentURLNames", slices.Concat(contentURLNames, textOutputNames), readable(asWord)},
	}
}

// hasMembers reports whether a value can be a list of fields.
func hasMembers(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
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

// IsEnvelope reports whether a record that has only a status wraps a generation that is missing.
func IsEnvelope(r Record) bool { return isEnvelope(r.record) }

// IsSecret reports whether a member of a folded name is never kept.
func IsSecret(name string) bool { return secretNames[name] }

// Word gives a text that says something.
func Word(value any) (string, bool) { return asWord(value) }

// ReadPrice reads the price in the body of a quote.
func ReadPrice(value any) (cents int64, ok bool) { return readPrice(value) }

// InOtherUnits reports whether a record says that its amounts are not euro cents.
func InOtherUnits(r Record) bool { return inOtherUnits(r.record) }

// IsCentUnit reports whether a word is known as a name of euro cents.
func IsCentUnit(word string) bool { return slices.Contains(centUnits, fold(word)) }

// OutputKindOf reads what a model makes from the member of a record.
func OutputKindOf(r Record) (OutputKind, bool) {
	kind, _, ok := find(r.record, outputNames, outputKind)
	return kind, ok
}

// FieldsOf are the descriptions of input fields in a value, by the shapes that are read.
func FieldsOf(value any) (fields []Record) {
	items, _ := value.([]any)
	if members, ok := value.(map[string]any); ok {
		if r, ok := newRecord(members); ok {
			if properties, _, ok := find(r, propertiesNames, asObject); ok {
				members = properties
			}
		}
		for _, member := range members {
			items = append(items, member)
		}
	}
	for _, item := range items {
		if r, ok := NewRecord(item); ok {
			fields = append(fields, r)
		}
	}
	return fields
}

// StateOf gives the state that a status stands for.
func StateOf(status string) State { return stateOf(status) }

// StatusKey is a status as the table of states has it.
func StatusKey(status string) string { return statusKey(status) }

// SaysFailure reports whether a generation says why it has failed.
func SaysFailure(r Record) bool {
	own, _ := newRecord(copied(r.members))
	return takeFailure(own) != ""
}
