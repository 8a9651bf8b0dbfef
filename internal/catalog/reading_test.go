package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestResponseExplanationListsUnknownMembers(t *testing.T) {
	for _, test := range []struct{ route, body, part, table, others string }{
		{opQuote, `{"eurPrice": 12, "validFor": "5m"}`, "price", "priceCentsNames", "eurPrice (a number), validFor (a text)"},
		{opQuote, `{"price": 0.12}`, "price", "priceCentsNames", "price (a number)"},
		{opQuote, `{"pricing": {"priceCents": 12}}`, "price", "quoteWrappers", "pricing (an object)"},
		{opQuote, `{"price": 12, "unit": "EUR-cents"}`, "price", "centUnits", ""},
		{opQuote, `{"price": 12, "currency": "USD"}`, "price", "another currency", ""},
		{opQuote, `[]`, "price", "the value is a list", ""},
		{opAccount, `{"walletCents": 7, "plan": null}`, "balance", "balanceNames", "walletCents (a number)"},
		{opAccount, `"rich"`, "balance", "the value is a text", ""},
		{opAccount, `{}`, "balance", "balanceNames", ""},
		{opGenerations, `{"warnings": [], "pictures": [{"id": "a", "status": "queued"}]}`, "list of renders", "generationListNames", "pictures (a list), warnings (a list)"},
		{opGenerations, `17`, "list of renders", "generationListNames", ""},
		{opGenerations, `[{"id": "a", "status": "Baking Hot"}]`, "status word", "states", ""},
		{opGenerations, `[{"id": "a", "lifecyclePhase": "queued"}]`, "status", "statusNames", "lifecyclePhase (a text)"},
		{opGenerations, `[{"id": "a", "status": "queued", "paidCents": 4}]`, "cost", "costNames", "paidCents (a number)"},
		{opModels, `[{"modelRef": "m", "fields": []}]`, "model id", "modelIDNames", "fields (a list), modelRef (a text)"},
		{opModel, `{"id": "m", "knobs": [{"name": "prompt", "type": "string"}]}`, "input fields", "fieldListNames", "knobs (a list)"},
	} {
		found := Explain(test.route, []byte(test.body), Credential{})
		fault := slices.IndexFunc(found, func(f Finding) bool { return f.Part == test.part && f.Fault != "" })
		if fault < 0 || !strings.Contains(found[fault].Fault, test.table) {
			t.Errorf("%s %s: %+v", test.route, test.body, found)
		}
		if test.others != "" && !slices.Contains(found, Finding{Part: "other members", Where: test.others, Count: 1}) {
			t.Errorf("%s %s: want the finding \"other members\" with %s, got %+v", test.route, test.body, test.others, found)
		}
	}
}

func TestResponseExplanationListsRecognizedMembers(t *testing.T) {
	for route, test := range map[string]struct {
		body string
		want []Finding
	}{
		opQuote:       {`{"quote": {"costCents": 3}}`, []Finding{{Part: "price", Where: "costCents", Count: 1}}},
		opModels:      {`["m"]`, []Finding{{Part: "list of models", Where: "1 records", Count: 1}, {Part: "model id", Where: "the value itself", Count: 1}}},
		opModel:       {`{"model": {"id": "m"}, "inputs": {"prompt": "string"}}`, []Finding{{Part: "model id", Where: "id", Count: 1}, {Part: "input fields", Where: "inputs", Count: 1}}},
		opGenerations: {`[{"id": 1, "status": "done"}, {"id": 2, "status": "done"}]`, []Finding{{Part: "list of renders", Where: "2 records", Count: 1}, {Part: "render id", Where: "id", Count: 2}, {Part: "status", Where: "status", Count: 2}, {Part: "status word", Where: `"done" is succeeded`, Count: 2}}},
	} {
		if found := Explain(route, []byte(test.body), Credential{}); !slices.Equal(found, test.want) {
			t.Errorf("%s %s: %+v", route, test.body, found)
		}
	}
}

func TestResponseExplanationContainsNoAPIKey(t *testing.T) {
	const key = "studio_live_0123456789abcdef"
	for route, body := range map[string]string{
		opAccount:     `{"` + key + `": 5, "balance": "` + key + `"}`,
		opQuote:       `{"x` + key + `Cents": 5, "y": 4, "unit": "` + key + `"}`,
		opGenerations: `[{"id": "` + key + `", "status": "` + key + `", "orderedBy": "hunter2"}]`,
		opModel:       `{"id": "m", "output": "` + key + `", "fields": [{"name": "a", "type": "` + key + `"}]}`,
	} {
		text, err := json.Marshal(Explain(route, []byte(body), Forwarded(NewSecret(key))))
		if err != nil || strings.Contains(string(text), key) || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s: %s, %v", route, text, err)
		}
	}
}

// TestParsingRulesReferToExistingTables checks that RulesFile declares every table to which the rules for
// response bodies refer.
func TestParsingRulesReferToExistingTables(t *testing.T) {
	source := proctest.Read(t, RulesFile)
	names := []string{"states", "centUnits", "timeLayouts"}
	for _, r := range readings {
		names = append(names, r.wrappers)
		if r.lists != "" {
			names = append(names, r.lists)
		}
		for _, p := range r.parts {
			names = append(names, p.table)
		}
	}
	for _, name := range names {
		if !strings.Contains(source, "\t"+name+" ") && !strings.Contains(source, "var "+name+" ") {
			t.Errorf("%s has no table %s", RulesFile, name)
		}
	}
}

func FuzzExplain(f *testing.F) {
	for _, body := range []string{`{}`, `[]`, `{"data":{"items":[{"id":1}]}}`, `{"a":{"b":{"c":{"d":[]}}}}`, `[[[]]]`, `{"price":1e999}`} {
		f.Add(body)
	}
	f.Fuzz(func(_ *testing.T, body string) {
		for route := range readings {
			Explain(route, []byte(body), Credential{})
		}
	})
}
