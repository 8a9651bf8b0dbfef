package catalog

import "slices"

// RulesFile is the file with the reading rules, for messages that suggest an addition.
const RulesFile = "internal/catalog/rules.go"

// ReadBody parses the body of a response for the reading rules, and redacts the API key of cred.
func ReadBody(body []byte, cred Credential) (JSON, error) {
	v, err := parse(body)
	return newRedactor(cred.APIKey().Reveal()).redact(v), err
}

// Rule describes how a value is found in a record: it is the first readable member with one of several names.
type Rule struct {
	Table string // variable in [RulesFile] that contains the names
	Names []string
	Reads func(JSON) bool
}

// Find returns the member that the rule finds.
func (r Rule) Find(in *Record) (m Member, ok bool) {
	_, found, ok := find(in, r.Names, func(v JSON) (bool, bool) { return true, !v.IsNull() && r.Reads(v) })
	if ok {
		m = Member{found.name, found.value}
	}
	return m, ok
}

// readable converts a reader to a predicate.
func readable[T any](read func(JSON) (T, bool)) func(JSON) bool {
	return func(v JSON) bool { _, ok := read(v); return ok }
}

// Form describes how a kind of record is found in a body.
type Form struct {
	Wrappers, Lists Rule // only Table and Names are set

	weights []weight
	find    func(JSON) (*Record, bool)
}

// Record finds the record in a value, which is the record itself or wraps it.
func (f Form) Record(v JSON) (*Record, bool) { return f.find(v) }

// List finds the list of records in a body.
func (f Form) List(v JSON) ([]JSON, bool) { return findList(v, f.Lists.Names, f.weights, maxEnvelope) }

// Fits reports whether a record has a member that is typical of this kind.
func (f Form) Fits(r *Record) bool { return r.score(f.weights) > 0 }

// RuleSet contains the rules by which Easel reads catalog responses. Package doctor explains their results.
type RuleSet struct {
	Account, Quote, Model, Generation Form

	Balance, Price, Unit, Currency                                     Rule
	ModelID, ModelName, ModelDescription, InputFields                  Rule
	GenerationID, Status, ModelOf, Cost, CreateTime, Inputs, HasResult Rule
}

// Rules returns the reading rules.
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

// hasFields reports whether a value is a non-empty list of fields.
func hasFields(v JSON) bool {
	items, _ := v.Items()
	_, ok := readFields(v)
	return ok && len(items)+len(v.Members()) > 0
}

// IsSecret reports whether members with a folded name are never stored.
func IsSecret(name string) bool { return secretNames[name] }

// IsCentUnit reports whether a word means euro cents.
func IsCentUnit(word string) bool { return slices.Contains(centUnits, Fold(word)) }

// SaysFailure reports whether the record of a generation states the reason of its failure.
func SaysFailure(r *Record) bool {
	own, _ := NewRecord(r.sent)
	return takeFailure(own) != ""
}
