package catalog

import "slices"

// RulesFile is where the reading rules stand, for those who are told to add to them.
const RulesFile = "internal/catalog/rules.go"

// ReadBody reads the body of an answer as the reading rules get it, without the API key of cred.
func ReadBody(body []byte, cred Credential) (JSON, error) {
	v, err := parse(body)
	return newRedactor(cred.APIKey().Reveal()).redact(v), err
}

// Record is an object of a body.
type Record struct{ record *record }

// NewRecord makes a record of an object.
func NewRecord(v JSON) (Record, bool) {
	r, ok := newRecord(v)
	return Record{r}, ok
}

// Sent is the object as it was sent.
func (r Record) Sent() JSON { return r.record.sent }

// Member is the member that the rules find under a name of a table. Its value is nil where there is none.
func (r Record) Member(name string) Member {
	if p := r.record.member(name); p != nil {
		return Member{string(p.name), p.value}
	}
	return Member{}
}

// Fold is a name without its style: costCents, cost_cents and Cost-Cents are the same.
func Fold(name string) string { return fold(name) }

// Rule is how a part of a record is found: the first of some names whose member can be read.
type Rule struct {
	Table string // the variable of [RulesFile] that holds the names
	Names []string
	Reads func(JSON) bool
}

// Find gives the member that holds the part.
func (r Rule) Find(in Record) (m Member, ok bool) {
	_, found, ok := find(in.record, r.Names, func(v JSON) (bool, bool) { return true, !v.IsNull() && r.Reads(v) })
	if ok {
		m = Member{string(found.name), found.value}
	}
	return m, ok
}

// readable makes a test of a reader.
func readable[T any](read func(JSON) (T, bool)) func(JSON) bool {
	return func(v JSON) bool { _, ok := read(v); return ok }
}

// Form is how records of one kind are found in a body.
type Form struct {
	Wrappers, Lists Rule // of names alone

	weights []weight
	find    func(JSON) (*record, bool)
}

// Record finds the record in a value that is one, or wraps one.
func (f Form) Record(v JSON) (Record, bool) {
	r, ok := f.find(v)
	return Record{r}, ok
}

// List finds the list of records in a body.
func (f Form) List(v JSON) ([]JSON, bool) { return findList(v, f.Lists.Names, f.weights, maxEnvelope) }

// Fits reports whether a record has at least one of the members that tell its kind.
func (f Form) Fits(r Record) bool { return r.record.score(f.weights) > 0 }

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
	form := func(table string, wrappers []string, listTable string, lists []string, weights []weight) Form {
		return Form{
			Wrappers: Rule{Table: table, Names: wrappers}, Lists: Rule{Table: listTable, Names: lists}, weights: weights,
			find: func(v JSON) (*record, bool) { return unwrap(v, wrappers, weights) },
		}
	}
	rules := RuleSet{
		Account:    form("accountWrappers", accountWrappers, "", nil, accountWeights),
		Quote:      form("quoteWrappers", quoteWrappers, "", nil, quoteWeights),
		Model:      form("modelWrappers", modelWrappers, "modelListNames", modelListNames, modelWeights),
		Generation: form("generationWrappers", generationWrappers, "generationListNames", generationListNames, generationWeights),

		Balance:  Rule{"balanceNames", balanceNames, readable(asInteger)},
		Price:    Rule{"priceCentsNames", slices.Concat(priceCentsNames, priceNames), readable(asInteger)},
		Unit:     Rule{"unitNames", unitNames, readable(asWord)},
		Currency: Rule{"currencyNames", currencyNames, readable(asWord)},

		ModelID:          Rule{"modelIDNames", modelIDNames, readable(asID)},
		ModelName:        Rule{"modelNameNames", modelNameNames, readable(asWord)},
		ModelDescription: Rule{"descriptionNames", descriptionNames, readable(asWord)},
		InputFields:      Rule{"fieldListNames", fieldListNames, hasFields},
		OutputKind:       Rule{"outputKinds", outputNames, readable(outputKind)},
		FieldType:        Rule{"fieldTypes", fieldTypeNames, readable(fieldType)},

		GenerationID: Rule{"generationIDNames", generationIDNames, readable(asID)},
		Status:       Rule{"statusNames", statusNames, readable(asWord)},
		ModelOf:      Rule{"modelOfNames", modelOfNames, readable(asID)},
		Cost:         Rule{"costNames", costNames, readable(asInteger)},
		CreateTime:   Rule{"createTimeNames", createTimeNames, readable(asTime)},
		Inputs:       Rule{"inputsNames", inputsNames, func(v JSON) bool { return v.kind() == '{' }},
		HasResult:    Rule{"contentURLNames", slices.Concat(contentURLNames, textOutputNames), readable(asWord)},
	}
	rules.Generation.find = func(v JSON) (*record, bool) {
		r, _, ok := findGeneration(v, "")
		return r, ok
	}
	return rules
}

// hasFields reports whether a value is a list of fields, and not an empty one.
func hasFields(v JSON) bool {
	items, _ := v.Items()
	_, ok := readFields(v)
	return ok && len(items)+len(v.Members()) > 0
}

// IsEnvelope reports whether a record that has only a status wraps a generation that is missing.
func IsEnvelope(r Record) bool { return isEnvelope(r.record) }

// IsSecret reports whether a member of a folded name is never kept.
func IsSecret(name string) bool { return secretNames[name] }

// Word gives a text that says something.
func Word(v JSON) (string, bool) { return asWord(v) }

// ReadPrice reads the price in the body of a quote.
func ReadPrice(v JSON) (cents int64, ok bool) { return readPrice(v) }

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
func FieldsOf(v JSON) (fields []Record) {
	items, _ := v.Items()
	if r, ok := newRecord(v); ok {
		if properties, _, ok := find(r, propertiesNames, plainObject); ok {
			v = properties
		}
		for _, m := range v.Members() {
			items = append(items, m.Value)
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
	own, _ := newRecord(r.record.sent)
	return takeFailure(own) != ""
}
