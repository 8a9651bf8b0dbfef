package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/doctor"
)

const (
	routeAccount     = "GET /me"
	routeModels      = "GET /models"
	routeModel       = "GET /models/detail"
	routeQuote       = "POST /quote"
	routeGenerations = "GET /generations"
)

func faultsOf(found []doctor.Finding) []doctor.Finding {
	return slices.DeleteFunc(found, func(f doctor.Finding) bool { return f.Fault == "" })
}

func TestTheLinesThatADiagnosisNamesMakeTheRulesReadIt(t *testing.T) {
	for _, test := range []struct{ name, route, body, fixes string }{
		{"a price under an unknown name", routeQuote, `{"eurPrice": 12}`, `priceCentsNames "eurPrice"`},
		{"a price beside other numbers", routeQuote, `{"eta": 5, "chargeableCents": 12, "steps": 3}`, `priceCentsNames "chargeableCents"`},
		{"a price that says nothing of itself", routeQuote, `{"x": 12, "model": "m"}`, `priceCentsNames "x"`},
		{"a price under an unknown wrapper", routeQuote, `{"pricing": {"priceCents": 12}}`, `quoteWrappers "pricing"`},
		{"both unknown", routeQuote, `{"pricing": {"eurAmount": 12}}`, `quoteWrappers "pricing", priceCentsNames "eurAmount"`},
		{"a unit that is spelled out", routeQuote, `{"price": 12, "unit": "EUR-cents"}`, `centUnits "EUR-cents"`},
		{"a balance under an unknown name", routeAccount, `{"walletCents": 7, "plan": 3}`, `balanceNames "walletCents"`},
		{"a balance under an unknown wrapper", routeAccount, `{"holder": {"balanceCents": 7}}`, `accountWrappers "holder"`},
		{"a list under two arrays", routeGenerations, `{"warnings": [], "pictures": [{"id": "a", "status": "queued"}]}`, `generationListNames "pictures"`},
		{"two arrays of objects", routeGenerations, `{"links": [{"rel": "next"}], "pictures": [{"id": "a", "status": "queued"}]}`, `generationListNames "pictures"`},
		{"two arrays below a wrapper", routeGenerations, `{"meta": {}, "page": {"links": [], "rows": [{"id": "a", "status": "queued"}]}}`, `generationListNames "page", generationListNames "rows"`},
		{"a list of models under two arrays", routeModels, `{"paints": [{"id": "m"}], "brushes": [1]}`, `modelListNames "paints"`},
		{"an unknown status", routeGenerations, `[{"id": "a", "status": "Baking Hot"}]`, `states "baking_hot": StateRunning`},
		{"an unknown status with a result", routeGenerations, `[{"id": "a", "status": "baked", "contentUrl": "https://x/y"}]`, `states "baked": StateSucceeded`},
		{"an unknown status with a reason", routeGenerations, `[{"id": "a", "status": "burnt", "error": "too hot"}]`, `states "burnt": StateFailed`},
		{"a status under an unknown name", routeGenerations, `[{"id": "a", "lifecyclePhase": "queued"}]`, `statusNames "lifecyclePhase"`},
		{"an id under an unknown name", routeGenerations, `[{"ticketNo": 17, "status": "queued"}]`, `generationIDNames "ticketNo"`},
		{"a model id under an unknown name", routeModels, `[{"modelRef": "m", "fields": []}]`, `modelIDNames "modelRef"`},
		{"fields under an unknown name", routeModel, `{"id": "m", "knobs": [{"name": "prompt", "type": "string"}]}`, `fieldListNames "knobs"`},
		{"a model under an unknown wrapper", routeModel, `{"engine": {"modelId": "m", "fields": [{"name": "prompt"}]}}`, `modelWrappers "engine"`},
		{"a cost under an unknown name", routeGenerations, `[{"id": "a", "status": "queued", "paidCents": 4}]`, `costNames "paidCents"`},
		{"a time under an unknown name", routeGenerations, `[{"id": "a", "status": "queued", "orderedOn": "2026-01-02T03:04:05Z"}]`, `createTimeNames "orderedOn"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			faults := faultsOf(doctor.Diagnose(test.route, []byte(test.body), catalog.Credential{}))
			var fixes []string
			for _, f := range faults {
				for _, c := range f.Fixes {
					fixes = append(fixes, c.Table+" "+c.Line)
					catalog.AddToRules(t, c.Table, c.Line)
				}
			}
			if got := strings.Join(fixes, ", "); got != test.fixes {
				t.Fatalf("got %s, want %s\n%+v", got, test.fixes, faults)
			}
			if left := faultsOf(doctor.Diagnose(test.route, []byte(test.body), catalog.Credential{})); len(left) > 0 {
				t.Errorf("with the fix there is still %+v", left)
			}
		})
	}
}
