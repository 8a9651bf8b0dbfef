package doctor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
)

func faultsOf(found []Finding, hints bool) (faults []Finding) {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Fault == "" || f.Hint && !hints })
}

func TestWhereNoLineHelpsADiagnosisSaysSo(t *testing.T) {
	for _, test := range []struct{ route, body, where string }{
		{routeQuote, `{"price": 0.12}`, "price"},
		{routeQuote, `{"price": "12"}`, "price"},
		{routeQuote, `{"price": 12, "currency": "USD"}`, "currency"},
		{routeQuote, `[]`, ""},
		{routeQuote, `{"priceCents": 12, "costCents": 13}`, "priceCents"},
		{routeQuote, `<html>`, ""},
		{routeAccount, `"rich"`, ""},
		{routeAccount, `{}`, ""},
		{routeGenerations, `{"a": 1}`, ""},
		{routeGenerations, `17`, ""},
		{routeModel, `{}`, ""},
	} {
		faults := faultsOf(Diagnose(test.route, []byte(test.body), catalog.Credential{}), false)
		if len(faults) == 0 || faults[0].Where != test.where || len(faults[0].Fixes) > 0 {
			t.Errorf("%s %s: %+v", test.route, test.body, faults)
		}
	}
}

func TestADiagnosisTellsNoKeyAndNoValue(t *testing.T) {
	const key = "studio_live_0123456789abcdef"
	cred := catalog.Forwarded(catalog.NewSecret(key))
	for route, body := range map[string]string{
		routeAccount:     `{"` + key + `": 5, "balance": "` + key + `"}`,
		routeQuote:       `{"x` + key + `Cents": 5, "y": 4, "unit": "` + key + `"}`,
		routeGenerations: `[{"id": "` + key + `", "status": "` + key + `", "orderedBy": "hunter2"}]`,
		routeModel:       `{"id": "m", "output": "` + key + `", "fields": [{"name": "a", "type": "` + key + `"}]}`,
	} {
		text, err := json.Marshal(Diagnose(route, []byte(body), cred))
		if err != nil || strings.Contains(string(text), key) || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s: %s, %v", route, text, err)
		}
	}
}

func FuzzADiagnosisOfAnyBodyEnds(f *testing.F) {
	for _, body := range []string{`{}`, `[]`, `{"data":{"items":[{"id":1}]}}`, `{"a":{"b":{"c":{"d":[]}}}}`, `[[[]]]`, `{"price":1e999}`} {
		f.Add(body)
	}
	f.Fuzz(func(_ *testing.T, body string) {
		for _, route := range []string{routeAccount, routeModels, routeModel, routeQuote, routeGenerations, "GET /generations/{id}"} {
			Diagnose(route, []byte(body), catalog.Credential{})
		}
	})
}
