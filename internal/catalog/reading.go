package catalog

import "slices"

// RulesFile is where the reading rules stand, for those who are told to add to them.
const RulesFile = "internal/catalog/rules.go"

// ReadBody reads the body of an answer as the reading rules get it, without the API key of cred.
func ReadBody(body []byte, cred Credential) (JSON, error) {
	v, err := parse(body)
	return newRedactor(cred.APIKey().Reveal()).redact(v), err
}

// Rule is how a part of a record is found: the first of some names whose member can be read.
type Rule struct {
	Table string // the variable of [RulesFile] that holds the names
	Names []string
	Reads func(JSON) bool
}

// Find gives the member that holds the part.
func (r Rule) Find(in *Record) (m Member, ok bool) {
	_, found, ok := find(in, r.Names, func(v JSON) (bool, bool) { return true, !v.IsNull() && r.Reads(v) })
	if ok {
		m = Member{found.name, found.value}
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
	find    func(JSON) (*Record, bool)
}

// Record finds the record in a value that is one, or wraps one.
func (f Form) Record(v JSON) (*Record, bool) { return f.find(v) }

// List finds the list of records in a body.
func (f Form) List(v JSON) ([]JSON, bool) { return findList(v, f.Lists.Names, f.weights, maxEnvelope) }

// Fits reports whether a record has at least one of the members that tell its kind.
func (f Form) Fits(r *Record) bool { return r.score(f.weights) > 0 }

// RuleSet are the reading rules, for package doctor, which explains what they make of a body.
type RuleSet struct {
	Account, Quote, Model, Generation Form

	Balance, Price, Unit, Currency                                     Rule
	ModelID, ModelName, ModelDescription, InputFields                  Rule
	GenerationID, Status, ModelOf, Cost, CreateTime, Inputs, HasResult Rule
}

// Rules gives the reading rules.
func Rules() RuleSet {
	form := func(table string, wrappers []string, listTable string, lists []string, weights []weight) Form {
		return Form{
			Wrappers: Rule{Table: table, Names: wrappers}, Lists: Rule{Table: listTable, Names: lists}, weights: weights,
			find: func(v JSON) (*Record, bool) { return unwrap(v, wrappers, weights) },
		}
	}
	rules := RuleSet{
		Account:    form("accountWrappers", accountWrappers, "", nil, accountWeights),
		Quote:      form("quoteWrappers", quoteWrappers, "", nil, quoteWeights),
		Model:      form("modelWrappers", modelWrappers, "modelListNames", modelListNames, modelWeights),
		Generation: form("generationWrappers", generationWrappers, "generationListNames", generationListNames, generationWeights),

		Balance:  Rule{"balanceNames", balanceNames, readable(asInteger)},
		Price:    Rule{"priceCentsNames", slices.Concat(priceCentsNames, priceNames), readable(asInteger)},
		Unit:     Rule{"unitNames", unitNames, readable(AsWord)},
		Currency: Rule{"currencyNames", currencyNames, readable(AsWord)},

		ModelID:          Rule{"modelIDNames", modelIDNames, readable(asID)},
		ModelName:        Rule{"modelNameNames", modelNameNames, readable(AsWord)},
		ModelDescription: Rule{"descriptionNames", descriptionNames, readable(AsWord)},
		InputFields:      Rule{"fieldListNames", fieldListNames, hasFields},

		GenerationID: Rule{"generationIDNames", generationIDNames, readable(asID)},
		Status:       Rule{"statusNames", statusNames, readable(AsWord)},
		ModelOf:      Rule{"modelOfNames", modelOfNames, readable(asID)},
		Cost:         Rule{"costNames", costNames, readable(asInteger)},
		CreateTime:   Rule{"createTimeNames", createTimeNames, readable(asTime)},
		Inputs:       Rule{"inputsNames", inputsNames, func(v JSON) bool { return v.Kind() == '{' }},
		HasResult:    Rule{"contentURLNames", slices.Concat(contentURLNames, textOutputNames), readable(AsWord)},
	}
	rules.Generation.find = func(v JSON) (*Record, bool) {
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

// IsSecret reports whether a member of a folded name is never kept.
func IsSecret(name string) bool { return secretNames[name] }

// IsCentUnit reports whether a word is known as a name of euro cents.
func IsCentUnit(word string) bool { return slices.Contains(centUnits, Fold(word)) }

// SaysFailure reports whether a generation says why it has failed.
func SaysFailure(r *Record) bool {
	own, _ := NewRecord(r.sent)
	return takeFailure(own) != ""
}
