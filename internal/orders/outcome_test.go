package orders_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

// ways contains the combinations of two choices: whether the API key is shared, and whether the ledger is in a file.
// The third field reports whether the ledger then contains every order that was ever placed under the idempotency
// key.
var ways = map[string]struct{ held, durable, knowsAll bool }{
	"shared key, durable":      {true, true, true},
	"shared key, in memory":    {true, false, false},
	"forwarded key, durable":   {false, true, false},
	"forwarded key, in memory": {false, false, false},
}

func TestEachFailedOrderReportsItsOutcome(t *testing.T) {
	definite, nothingLeft, open := orders.NotPlacedByThisCall, orders.NotPlacedByThisCall, orders.Unknown
	dear, list, keyless := plainOrder, plainOrder, plainOrder
	dear.MaxCostCents = new(int64(5))
	list.Inputs = []byte(`[]`)
	keyless.IdempotencyKey = ""
	rows := map[string]struct {
		order order // the zero value means plainOrder
		quote step
		steps []step
		kind  catalog.Kind   // expected kind of the error; zero means any kind
		want  orders.Outcome // expected outcome if the ledger may lack orders under the key; ignored if the outcome is Unknown in any case
		open  bool           // whether the outcome is Unknown even if the ledger contains all orders under the key
	}{
		"a daily cap":                     {steps: []step{{status: 409, body: `{"code":"API_KEY_DAILY_CAP"}`}}, want: definite},
		"no connection":                   {steps: []step{noDial}, want: nothingLeft, kind: catalog.KindUnavailable},
		"a rejection after no connection": {steps: []step{noDial, refusedNow}, want: definite, kind: catalog.KindInsufficientFunds},
		"above the limit":                 {order: dear, quote: step{status: 200, body: `{"priceCents":9}`}, want: nothingLeft, kind: catalog.KindPriceAboveLimit},
		"no quote":                        {order: dear, quote: step{status: 503}, want: nothingLeft, kind: catalog.KindUnavailable},
		"a quote that rejects the inputs": {order: dear, quote: step{status: 400}, want: nothingLeft, kind: catalog.KindInvalidInput},
		"inputs that are not an object":   {order: list, want: nothingLeft, kind: catalog.KindInvalidInput},
		"no idempotency key":              {order: keyless, want: nothingLeft, kind: catalog.KindInvalidInput},
		"a rejection after a 429":         {steps: []step{{status: 429}, refusedNow}, want: open},
		"a 429 until the deadline":        {steps: []step{{status: 429}}, want: open},
		"an unexpected status":            {steps: []step{{status: 418, body: `{"code":"TEAPOT"}`}}, open: true},
		"a redirect":                      {steps: []step{{status: 307}}, open: true},
		"a conflict":                      {steps: []step{{status: 409, body: `{"code":"CONFLICT"}`}}, open: true},
		"a key in progress":               {steps: []step{{status: 409}}, open: true, kind: catalog.KindInProgress},
		"a reused idempotency key":        {steps: []step{{status: 422, body: `{"code":"IDEMPOTENCY_KEY_REUSED"}`}}, open: true},
		"a rejection after a 503":         {steps: []step{away, refusedNow}, open: true},
		"a 503":                           {steps: []step{away}, open: true},
		"no connection after a 503":       {steps: []step{away, noDial}, open: true, kind: catalog.KindOutcomeUnknown},
		"a 503 after no connection":       {steps: []step{noDial, away}, open: true, kind: catalog.KindOutcomeUnknown},
	}
	for _, status := range []int{400, 401, 402, 403, 404, 413, 422} {
		row := rows["a 503"]
		row.open, row.want, row.steps = false, definite, []step{{status: status, body: `{"code":"NO","message":"no"}`}}
		rows[fmt.Sprintf("a %d from the catalog", status)] = row
		row.open, row.steps = true, []step{{status: status, body: "<html>no</html>"}}
		rows[fmt.Sprintf("a %d from a proxy", status)] = row
	}
	for name, row := range rows {
		if row.order.ModelID == "" {
			row.order = plainOrder
		}
		for wayName, way := range ways {
			t.Run(name+", "+wayName, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "ledger.db")
				synctest.Test(t, func(t *testing.T) {
					upstream := &script{steps: row.steps, quote: row.quote}
					c := newClient(t, catalog.Config{BaseURL: testURL, Transport: upstream}, func(at *ledger.Config) {
						if way.durable {
							at.URL = "sqlite:" + file
						}
					})
					cred, want := catalog.Forwarded(catalog.NewSecret("studio_live_0123456789abcdef")), row.want
					if way.held {
						cred = testCredential
					}
					switch {
					case row.open:
						want = orders.Unknown
					case way.knowsAll:
						want = orders.NotPlaced
					}
					_, err := createWithin(t, c, cred, row.order, 5*time.Second)
					if err == nil || err.Outcome != want || row.kind != 0 && catalog.KindOf(err) != row.kind || (len(upstream.keys) == 0) != (row.steps == nil) {
						t.Errorf("got %+v after %d attempts, want %s and the kind %v", err, len(upstream.keys), want, row.kind)
					}
				})
			})
		}
	}
}

func TestSameGenerationForTwoOrdersIsReportedAsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, &script{steps: []step{placed}}) // the catalog returns the same generation for every order
		other := plainOrder
		other.IdempotencyKey = "other"
		if _, err := createWithin(t, c, testCredential, plainOrder, time.Second); err != nil {
			t.Fatal(err)
		}
		_, err := createWithin(t, c, testCredential, other, time.Second)
		if err == nil || err.Outcome != orders.Unknown || !ledger.IsFault(err) || c.ledger.Counts.Faults.Load() != 1 {
			t.Errorf("got %+v and %d faults, want an unknown outcome and 1 fault", err, c.ledger.Counts.Faults.Load())
		}
	})
}
