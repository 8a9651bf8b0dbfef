package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// RulesFile is where the reading rules stand, for those who are told to add to them.
const RulesFile = "internal/catalog/rules.go"

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
	// Cures are the lines that would read it; none where no line would.
	Cures []Cure `json:"cures,omitempty"`
	// Count is in how many records it was so.
	Count int `json:"count"`
}

// Cure is one line to add to the rules.
type Cure struct {
	Table string `json:"table"`          // the variable in [RulesFile]
	Line  string `json:"line,omitempty"` // what to add to it, as Go, "" where only a person can write it
	Note  string `json:"note,omitempty"` // what to think about before, "" where it is plain
}

// Survey tells how the rules read the body of a 2xx answer of a route, such as "POST
// /quote". It reads by the tables of the rules themselves, and gives nothing for a route
// that has no table. The key of cred is in none of its texts, and neither are values other
// than the words of tables.
func Survey(route string, body []byte, cred Credential) []Finding {
	s := &survey{}
	value, err := decode(body)
	if err != nil {
		return []Finding{{Part: "body", Fault: "no JSON: the rules read nothing else here", Count: 1}}
	}
	s.value = newRedactor(cred.Key().Reveal()).redact(value)
	switch route {
	case opAccount:
		s.account()
	case opModels:
		s.models()
	case opModel:
		s.model()
	case opQuote:
		s.quote()
	case opGenerations:
		s.generations()
	case opGeneration:
		s.generation()
	}
	return s.found
}

// survey goes through one body.
type survey struct {
	value any
	found []Finding
}

// slot is a part of a record, and the names that it may go by.
type slot struct {
	part   string
	table  string
	names  []string
	want   string // what it must be, in words
	reads  func(any) bool
	hints  []string // what a name that is not known probably has in it
	needed bool     // Easel can't do without
}

// readable makes a test of a reader.
func readable[T any](read func(any) (T, bool)) func(any) bool {
	return func(v any) bool {
		_, ok := read(v)
		return ok
	}
}

func (s *survey) add(f Finding) {
	for i, other := range s.found {
		if other.Part == f.Part && other.Where == f.Where && other.Value == f.Value && other.Fault == f.Fault {
			s.found[i].Count++
			return
		}
	}
	f.Count = 1
	s.found = append(s.found, f)
}

// look looks for the parts of a record, and for what may be one under another name.
func (s *survey) look(r record, at string, slots []slot) {
	claimed := map[string]bool{}
	for _, sl := range slots {
		maps.Copy(claimed, set(sl.names))
	}
	for _, sl := range slots {
		if name, ok := sl.in(r); ok {
			s.add(Finding{Part: sl.part, Where: at + name})
			continue
		}
		if f, ok := sl.missing(r, at, claimed); ok {
			s.add(f)
		}
	}
}

// in gives the member of a record that holds the part, as it was sent.
func (sl slot) in(r record) (string, bool) {
	_, name, ok := find(r, sl.names, func(v any) (bool, bool) { return true, v != nil && sl.reads(v) })
	return r.folded[name], ok
}

// missing says what there is in place of a part, and whether that is worth a word.
func (sl slot) missing(r record, at string, claimed map[string]bool) (Finding, bool) {
	f := Finding{Part: sl.part, Hint: !sl.needed}
	for _, name := range sl.names {
		if member, there := r.get(name); there && member != nil {
			f.Where = at + r.folded[name]
			f.Fault = fmt.Sprintf("it is %s, and not %s: no line cures that", shape(member), sl.want)
			return f, true
		}
	}
	names := sl.candidates(r, claimed)
	for _, name := range names {
		f.Cures = append(f.Cures, sl.cure(name))
	}
	f.Fault = "under none of the names of " + sl.table
	return f, sl.needed || len(names) > 0
}

func (sl slot) cure(name string) Cure {
	return Cure{Table: sl.table, Line: quote(name)}
}

// candidates are the members that may be the part: those whose name says so, else the only
// one that could be read.
func (sl slot) candidates(r record, claimed map[string]bool) []string {
	var telling, others []string
	for _, key := range slices.Sorted(maps.Keys(r.folded)) {
		member, _ := r.get(key)
		if claimed[key] || secretNames[key] || member == nil || !sl.reads(member) {
			continue
		}
		name := r.folded[key]
		if slices.ContainsFunc(sl.hints, func(hint string) bool { return strings.Contains(key, hint) }) {
			telling = append(telling, name)
		} else {
			others = append(others, name)
		}
	}
	if len(telling) == 0 && sl.needed && len(others) == 1 {
		return others
	}
	return telling
}

// hunt looks for a part below wrappers that the rules do not know. Nil where it is in no
// object of the body.
func (s *survey) hunt(sl slot, wrappers []string, wrapperTable string) []Cure {
	var best []Cure
	for path, r := range s.objects() {
		var cures []Cure
		for _, name := range path {
			if !slices.Contains(wrappers, fold(name)) {
				cures = append(cures, Cure{Table: wrapperTable, Line: quote(name)})
			}
		}
		if _, ok := sl.in(r); !ok {
			names := sl.candidates(r, nil)
			if len(names) == 0 {
				continue
			}
			cures = append(cures, sl.cure(names[0]))
		}
		if len(cures) > 0 && (best == nil || len(cures) < len(best)) {
			best = cures
		}
	}
	return best
}

// objects goes through the objects of the body that the rules can be made to reach.
func (s *survey) objects() func(yield func([]string, record) bool) {
	return func(yield func([]string, record) bool) {
		var walk func(value any, path []string) bool
		walk = func(value any, path []string) bool {
			r, ok := newRecord(value)
			if !ok || len(path) > 2 {
				return true
			}
			if !yield(path, r) {
				return false
			}
			for _, name := range slices.Sorted(maps.Keys(r.members)) {
				if !walk(r.members[name], append(slices.Clone(path), name)) {
					return false
				}
			}
			return true
		}
		walk(s.value, nil)
	}
}

// at is the path of an object or a list of the body, as a prefix of its members.
func (s *survey) at(target any) string {
	path, found := pathOf(s.value, reflect.ValueOf(target), 0)
	if !found || path == "" {
		return path
	}
	return path + "."
}

func pathOf(value any, target reflect.Value, depth int) (string, bool) {
	if v := reflect.ValueOf(value); v.IsValid() && v.Kind() == target.Kind() && v.Pointer() == target.Pointer() {
		return "", true
	}
	members, ok := value.(map[string]any)
	if !ok || depth > 3 {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch members[name].(type) {
		case map[string]any, []any:
			if below, ok := pathOf(members[name], target, depth+1); ok {
				return strings.TrimSuffix(name+"."+below, "."), true
			}
		}
	}
	return "", false
}

// shape says of which type a value is, and never what it is.
func shape(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "a number with decimals"
		}
		return "a whole number"
	case []any:
		return "a list"
	}
	return "an object"
}

// quote writes a name as Go. Names come from outside.
func quote(name string) string { return fmt.Sprintf("%q", clamp(name, 64)) }
