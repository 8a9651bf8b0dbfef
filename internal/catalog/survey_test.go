package catalog

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tables are the name tables that a cure may add to.
var tables = map[string]*[]string{
	"accountWrappers": &accountWrappers, "modelWrappers": &modelWrappers, "generationWrappers": &generationWrappers, "quoteWrappers": &quoteWrappers,
	"modelListNames": &modelListNames, "generationListNames": &generationListNames, "modelIDNames": &modelIDNames, "generationIDNames": &generationIDNames,
	"balanceNames": &balanceNames, "priceCentsNames": &priceCentsNames, "statusNames": &statusNames, "fieldListNames": &fieldListNames,
	"costNames": &costNames, "createTimeNames": &createTimeNames, "modelOfNames": &modelOfNames, "inputsNames": &inputsNames, "centUnits": &centUnits,
	"modelNameNames": &modelNameNames, "descriptionNames": &descriptionNames,
}

// apply does to the rules what a cure says, until the test ends.
func apply(t *testing.T, c Cure) {
	t.Helper()
	name, state, isWord := strings.Cut(c.Line, ": ")
	text, err := strconv.Unquote(name)
	if err != nil {
		t.Fatalf("%q is no Go: %v", c.Line, err)
	}
	switch {
	case isWord && c.Table == "states":
		states[text] = map[string]State{"StateRunning": StateRunning, "StateSucceeded": StateSucceeded, "StateFailed": StateFailed}[state]
		t.Cleanup(func() { delete(states, text) })
	case isWord && c.Table == "fieldTypes":
		fieldTypes[text] = FieldString
		t.Cleanup(func() { delete(fieldTypes, text) })
	case isWord && c.Table == "outputKinds":
		outputKinds[text] = OutputFile
		t.Cleanup(func() { delete(outputKinds, text) })
	default:
		table, known := tables[c.Table]
		if !known {
			t.Fatalf("there is no table %s", c.Table)
		}
		before := *table
		*table = append(slices.Clone(before), fold(text))
		weigh()
		t.Cleanup(func() { *table = before; weigh() })
	}
}

// weigh makes the weights anew, which hold tables as they were at the start.
func weigh() {
	accountWeights[0].names, modelWeights[0].names, modelWeights[1].names = balanceNames, modelIDNames, fieldListNames
	quoteWeights[0].names, quoteWeights[1].names = priceCentsNames, priceNames
	generationWeights[0].names, generationWeights[1].names = generationIDNames, statusNames
}

func faultsOf(found []Finding, hints bool) (faults []Finding) {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Fault == "" || f.Hint && !hints })
}

func TestTheLinesThatASurveyNamesCureWhatItFound(t *testing.T) {
	for _, test := range []struct{ name, route, body, cures string }{
		{"a price under an unknown name", opQuote, `{"eurPrice": 12}`, `priceCentsNames "eurPrice"`},
		{"a price beside other numbers", opQuote, `{"eta": 5, "chargeableCents": 12, "steps": 3}`, `priceCentsNames "chargeableCents"`},
		{"a price that says nothing of itself", opQuote, `{"x": 12, "model": "m"}`, `priceCentsNames "x"`},
		{"a price under an unknown wrapper", opQuote, `{"pricing": {"priceCents": 12}}`, `quoteWrappers "pricing"`},
		{"both unknown", opQuote, `{"pricing": {"eurAmount": 12}}`, `quoteWrappers "pricing", priceCentsNames "eurAmount"`},
		{"a unit that is spelled out", opQuote, `{"price": 12, "unit": "EUR-cents"}`, `centUnits "EUR-cents"`},
		{"a balance under an unknown name", opAccount, `{"walletCents": 7, "plan": 3}`, `balanceNames "walletCents"`},
		{"a balance under an unknown wrapper", opAccount, `{"holder": {"balanceCents": 7}}`, `accountWrappers "holder"`},
		{"a list under two arrays", opGenerations, `{"warnings": [], "pictures": [{"id": "a", "status": "queued"}]}`, `generationListNames "pictures"`},
		{"two arrays of objects", opGenerations, `{"links": [{"rel": "next"}], "pictures": [{"id": "a", "status": "queued"}]}`, `generationListNames "pictures"`},
		{"two arrays below a wrapper", opGenerations, `{"meta": {}, "page": {"links": [], "rows": [{"id": "a", "status": "queued"}]}}`, `generationListNames "page", generationListNames "rows"`},
		{"a list of models under two arrays", opModels, `{"paints": [{"id": "m"}], "brushes": [1]}`, `modelListNames "paints"`},
		{"an unknown status", opGenerations, `[{"id": "a", "status": "Baking Hot"}]`, `states "baking_hot": StateRunning`},
		{"an unknown status with a result", opGenerations, `[{"id": "a", "status": "baked", "contentUrl": "https://x/y"}]`, `states "baked": StateSucceeded`},
		{"an unknown status with a reason", opGeneration, `{"id": "a", "status": "burnt", "error": "too hot"}`, `states "burnt": StateFailed`},
		{"a status under an unknown name", opGenerations, `[{"id": "a", "lifecyclePhase": "queued"}]`, `statusNames "lifecyclePhase"`},
		{"an id under an unknown name", opGenerations, `[{"ticketNo": 17, "status": "queued"}]`, `generationIDNames "ticketNo"`},
		{"a render under an unknown wrapper", opGeneration, `{"picture": {"id": "a", "status": "queued"}}`, `generationWrappers "picture"`},
		{"a model id under an unknown name", opModels, `[{"modelRef": "m", "fields": []}]`, `modelIDNames "modelRef"`},
		{"fields under an unknown name", opModel, `{"id": "m", "knobs": [{"name": "prompt", "type": "string"}]}`, `fieldListNames "knobs"`},
		{"a model under an unknown wrapper", opModel, `{"engine": {"modelId": "m", "fields": [{"name": "prompt"}]}}`, `modelWrappers "engine"`},
		{"an unknown type", opModel, `{"id": "m", "fields": [{"name": "tint", "type": "Hue"}]}`, `fieldTypes "hue": FieldString`},
		{"an unknown product", opModel, `{"id": "m", "output": "Hologram", "fields": [{"name": "prompt"}]}`, `outputKinds "hologram": OutputFile`},
		{"a cost under an unknown name", opGeneration, `{"id": "a", "status": "queued", "paidCents": 4}`, `costNames "paidCents"`},
		{"a time under an unknown name", opGeneration, `{"id": "a", "status": "queued", "orderedOn": "2026-01-02T03:04:05Z"}`, `createTimeNames "orderedOn"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			faults := faultsOf(Survey(test.route, []byte(test.body), Credential{}), true)
			var cures []string
			for _, f := range faults {
				for _, c := range f.Cures {
					cures = append(cures, c.Table+" "+c.Line)
					apply(t, c)
				}
			}
			if got := strings.Join(cures, ", "); got != test.cures {
				t.Fatalf("got %s, want %s\n%+v", got, test.cures, faults)
			}
			if left := faultsOf(Survey(test.route, []byte(test.body), Credential{}), true); len(left) > 0 {
				t.Errorf("with the cure there is still %+v", left)
			}
		})
	}
}

func TestWhereNoLineCuresASurveySaysSo(t *testing.T) {
	for _, test := range []struct{ route, body, where string }{
		{opQuote, `{"price": 0.12}`, "price"},
		{opQuote, `{"price": "12"}`, "price"},
		{opQuote, `{"price": 12, "currency": "USD"}`, "currency"},
		{opQuote, `[]`, ""},
		{opQuote, `{"priceCents": 12, "costCents": 13}`, "priceCents"},
		{opQuote, `<html>`, ""},
		{opAccount, `"rich"`, ""},
		{opAccount, `{}`, ""},
		{opGenerations, `{"a": 1}`, ""},
		{opGenerations, `17`, ""},
		{opGeneration, `[]`, ""},
		{opModel, `{}`, ""},
	} {
		faults := faultsOf(Survey(test.route, []byte(test.body), Credential{}), false)
		if len(faults) == 0 || faults[0].Where != test.where || len(faults[0].Cures) > 0 {
			t.Errorf("%s %s: %+v", test.route, test.body, faults)
		}
	}
}

func TestASurveyNamesTablesThatTheRulesHave(t *testing.T) {
	rules, err := os.ReadFile("rules.go")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"states", "fieldTypes", "outputKinds"}
	for name := range tables {
		names = append(names, name)
	}
	for _, slots := range [][]slot{{accountSlot(), priceSlot()}, modelSlots(true), generationSlots()} {
		for _, sl := range slots {
			names = append(names, sl.table)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(rules), "\t"+name+" ") && !strings.Contains(string(rules), "var "+name+" ") {
			t.Errorf("%s has no table %s", RulesFile, name)
		}
	}
}

func TestASurveyTellsNoKeyAndNoValue(t *testing.T) {
	const key = "studio_live_0123456789abcdef"
	cred := Forwarded(NewSecret(key))
	for route, body := range map[string]string{
		opAccount:     `{"` + key + `": 5, "balance": "` + key + `"}`,
		opQuote:       `{"x` + key + `Cents": 5, "y": 4, "unit": "` + key + `"}`,
		opGenerations: `[{"id": "` + key + `", "status": "` + key + `", "orderedBy": "hunter2"}]`,
		opModel:       `{"id": "m", "output": "` + key + `", "fields": [{"name": "a", "type": "` + key + `"}]}`,
	} {
		text, err := json.Marshal(Survey(route, []byte(body), cred))
		if err != nil || strings.Contains(string(text), key) || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s: %s, %v", route, text, err)
		}
	}
}

func FuzzASurveyOfAnyBodyEnds(f *testing.F) {
	for _, body := range []string{`{}`, `[]`, `{"data":{"items":[{"id":1}]}}`, `{"a":{"b":{"c":{"d":[]}}}}`, `[[[]]]`, `{"price":1e999}`} {
		f.Add(body)
	}
	f.Fuzz(func(_ *testing.T, body string) {
		for _, route := range []string{opAccount, opModels, opModel, opQuote, opGenerations, opGeneration, opContent} {
			Survey(route, []byte(body), Credential{})
		}
	})
}
