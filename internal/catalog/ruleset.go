package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// RulesFile is the path of the file with the rules for reading responses. Messages that suggest adding a name to a table contain
// this path.
const RulesFile = "internal/catalog/membernames.go"

// Finding is the result of reading one part of a response. It contains names of members and status words, but no other values from
// the response.
type Finding struct {
	Part  string `json:"part"`            // part of the response, such as "price"
	Where string `json:"where,omitempty"` // name of the member that contains the part, or a description such as "the value itself"; empty if the part was not found
	Fault string `json:"fault,omitempty"` // reason why this part of the response can't be read, and the table to extend; empty if it can be read
	Hint  bool   `json:"hint,omitempty"`  // whether Fault is only a hint, because Easel does not require this part of the response
	Count int    `json:"count"`           // number of records with this finding
}

// part describes a value that Easel reads from a record, such as the price. The value is in the first readable member whose name
// is in names.
type part struct {
	name, table string // table is the name of the variable in [RulesFile] to which further member names can be added
	names       []string
	want        string // description of a readable value
	reads       func(JSON) bool
	needed      bool // whether Easel needs this part of the record
}

// find returns the record's first member from which the part can be read.
func (p part) find(r *Record) (*picked, bool) {
	_, member, ok := find(r, p.names, func(v JSON) (bool, bool) { return true, !v.IsNull() && p.reads(v) })
	return member, ok
}

// isReadable returns a function that reports whether fn can read a value.
func isReadable[T any](fn func(JSON) (T, bool)) func(JSON) bool {
	return func(v JSON) bool { _, ok := fn(v); return ok }
}

// reading contains the rules for reading the response body of a route.
type reading struct {
	name             string // name of the record or of the list, as reported in Finding.Part
	wrappers, lists  string // names of two variables in [RulesFile], for wrappers and for lists; the second is empty for a single record
	list             func(JSON) ([]JSON, bool)
	record           func(JSON) (*Record, bool)
	parts            []part
	fieldsAreOutside bool // whether the input fields may be outside the record
}

const (
	wantCents  = "a whole number of cents"
	wantID     = "a text or a whole number"
	wantText   = "a text"
	wantFields = "a list or an object of fields"
)

var modelParts = []part{
	{"model id", "modelIDNames", modelIDNames, wantID, isReadable(asID), true},
	{"model name", "modelNameNames", modelNameNames, wantText, isReadable(AsWord), false},
	{"model description", "descriptionNames", descriptionNames, wantText, isReadable(AsWord), false},
	{"input fields", "fieldListNames", fieldListNames, wantFields, hasFields, true},
}

// readings maps routes to the rules for reading their responses. It contains only routes whose requests are free of charge.
var readings = map[string]reading{
	opAccount: {name: "account", wrappers: "accountWrappers", record: wrapped(accountWrappers, accountWeights), parts: []part{
		{"balance", "balanceNames", balanceNames, wantCents, isReadable(asInteger), true},
	}},
	opQuote: {name: "price", wrappers: "quoteWrappers", record: wrapped(quoteWrappers, quoteWeights), parts: []part{
		{"price", "priceCentsNames", slices.Concat(priceCentsNames, priceNames), wantCents, isReadable(asInteger), true},
	}},
	opModels: {
		name: "list of models", wrappers: "modelWrappers", lists: "modelListNames", list: listed(modelListNames, modelWeights),
		record: wrapped(modelWrappers, modelWeights), parts: modelParts[:3],
	},
	opModel: {name: "model", wrappers: "modelWrappers", record: wrapped(modelWrappers, modelWeights), parts: modelParts, fieldsAreOutside: true},
	opGenerations: {
		name: "list of renders", wrappers: "generationWrappers", lists: "generationListNames", list: listed(generationListNames, generationWeights),
		record: func(v JSON) (*Record, bool) { r, _, ok := findGeneration(v, ""); return r, ok },
		parts: []part{
			{"render id", "generationIDNames", generationIDNames, wantID, isReadable(asID), true},
			{"status", "statusNames", statusNames, "a word", isReadable(AsWord), true},
			{"model of a render", "modelOfNames", modelOfNames, wantID, isReadable(asID), false},
			{"cost", "costNames", costNames, wantCents, isReadable(asInteger), false},
			{"order time", "createTimeNames", createTimeNames, "a time in one of timeLayouts", isReadable(asTime), false},
			{"inputs", "inputsNames", inputsNames, "an object", isReadable(plainObject), false},
		},
	},
}

func wrapped(wrappers []string, weights []weight) func(JSON) (*Record, bool) {
	return func(v JSON) (*Record, bool) { return unwrap(v, wrappers, weights) }
}

func listed(names []string, weights []weight) func(JSON) ([]JSON, bool) {
	return func(v JSON) ([]JSON, bool) { return findList(v, names, weights, maxEnvelope) }
}

// hasFields reports whether a value is a non-empty list of fields.
func hasFields(v JSON) bool {
	fields, ok := readFields(v)
	return ok && len(fields) > 0
}

// explanation collects the findings for one response.
type explanation struct {
	reading
	body  JSON
	found []Finding
}

// Explain reports how Easel reads the body of a 2xx response from a route, such as "POST /quote". For each value
// that Easel reads, such as a price, it reports the member that contains the value. If the value can't be read, it reports the
// table in this package that must be extended. It also lists the members that no rule reads. It returns nil if the body is not
// JSON or the route has no rules. The findings do not contain the API key of cred.
func Explain(route string, body []byte, cred Credential) []Finding {
	value, err := parse(body)
	rules, ok := readings[route]
	if err != nil || !ok {
		return nil
	}
	e := &explanation{reading: rules, body: newRedactor(cred.APIKey().Reveal()).redact(value)}
	if e.list == nil {
		e.explainRecord(e.body)
		return e.found
	}
	items, ok := e.list(e.body)
	if !ok {
		e.add(Finding{Part: e.name, Fault: "not found; add its name to " + e.lists})
		e.add(Finding{Part: "other members", Where: describeOthers(e.body, nil)})
		return e.found
	}
	e.add(Finding{Part: e.name, Where: fmt.Sprintf("%d records", len(items))})
	for _, item := range items {
		e.explainRecord(item)
	}
	return e.found
}

// explainRecord adds the findings for one record. A value that is not an object may be the first part of a record, such as
// an ID.
func (e *explanation) explainRecord(v JSON) {
	r, isRecord := e.record(v)
	if first := e.parts[0]; !isRecord && first.reads(v) {
		e.add(Finding{Part: first.name, Where: "the value itself"})
		return
	} else if !isRecord {
		e.add(Finding{Part: first.name, Fault: "not found; the value is " + shape(v)})
		return
	}
	var missing []part
	var read []string
	for _, p := range e.parts {
		member, ok := e.memberOf(p, r)
		if !ok {
			missing = append(missing, p)
			continue
		}
		read = append(read, member.name)
		f := Finding{Part: p.name, Where: clamp(member.name, maxName)}
		if p.want == wantCents && inOtherUnits(r) {
			f.Fault, f.Hint = "the amounts are in another currency or unit; centUnits lists the recognized names of cents", !p.needed
		}
		e.add(f)
		if p.table == "statusNames" {
			e.addStatus(member.value)
		}
	}
	e.addMissing(missing, describeOthers(r.sent, read))
}

// memberOf returns the member of r that contains the given part. On some routes, input fields may be in the response body but
// outside the record. If they are missing from r, memberOf also looks there.
func (e *explanation) memberOf(p part, r *Record) (*picked, bool) {
	member, ok := p.find(r)
	if !ok && e.fieldsAreOutside && p.want == wantFields {
		top, _ := NewRecord(e.body)
		return p.find(top)
	}
	return member, ok
}

// addMissing adds findings if parts are missing. otherMembers describes the members that no rule reads. Such a member may
// contain a missing part, so addMissing then reports all missing parts, followed by these members. If there are no such
// members, it reports only the missing parts that Easel needs.
func (e *explanation) addMissing(missing []part, otherMembers string) {
	for _, p := range missing {
		if p.needed || otherMembers != "" {
			e.add(Finding{Part: p.name, Hint: !p.needed, Fault: "not found as " + p.want + "; add its name to " + p.table + ", or the name of its object to " + e.wrappers})
		}
	}
	if len(missing) > 0 && otherMembers != "" {
		e.add(Finding{Part: "other members", Where: otherMembers})
	}
}

// addStatus adds a finding for a status word: the word and its state, or a fault if the word is unknown.
func (e *explanation) addStatus(value JSON) {
	said, _ := AsWord(value)
	f := Finding{Part: "status word", Where: fmt.Sprintf("%q", clamp(said, maxName))}
	if state := StateOf(said); state != StateUnrecognized {
		f.Where += " is " + state.String()
	} else {
		f.Fault = "unknown; a render with this status is polled forever; add the word and its state to states"
	}
	e.add(f)
}

// add adds a finding. If the same finding already exists, add increments the count of the existing finding.
func (e *explanation) add(f Finding) {
	for i := range e.found {
		other := &e.found[i]
		if f.Count = other.Count; *other == f {
			other.Count++
			return
		}
	}
	f.Count = 1
	e.found = append(e.found, f)
}

const (
	maxName   = 64 // maximum length of a name in a finding, in bytes
	maxOthers = 20 // maximum number of names in a finding
)

// describeOthers returns the names and types of at most maxOthers members of an object, separated by commas. It omits members
// that are null. It also omits members that were already read, whose names are in readNames.
func describeOthers(v JSON, readNames []string) string {
	var all []string
	for _, m := range v.Members() {
		if !slices.Contains(readNames, m.Name) && !m.Value.IsNull() && len(all) < maxOthers {
			all = append(all, clamp(m.Name, maxName)+" ("+shape(m.Value)+")")
		}
	}
	return strings.Join(all, ", ")
}

// shape returns a description of the type of a value, such as "a number". The description does not contain the value.
func shape(v JSON) string {
	if v.isNumber() {
		return "a number"
	}
	return map[byte]string{'n': "null", 't': "true or false", 'f': "true or false", '"': "a text", '[': "a list", '{': "an object"}[v.Kind()]
}
