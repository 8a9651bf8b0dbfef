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

// ways contains each combination of API key and ledger. knowsAll means that the ledger contains every order that was
// placed under an idempotency key.
var ways = map[string]struct{ held, durable, knowsAll bool }{
	"shared key, durable":     {true, true, true},
	"shared key, in memory":   {true, false, false},
	"forwarded key, durable":  {false, true, false},
	"forwarded key, inmemory": {false, false, false},
}

// inEachWay runs a test once for each entry in ways, in simulated time.
func inEachWay(t *testing.T, test func(t *testing.T, knowsAll bool, cred catalog.Credential, at func(*ledger.Config))) {
	t.Helper()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ledger.db")
			synctest.Test(t, func(t *testing.T) {
				cred := catalog.Forwarded(catalog.NewSecret("studio_live_0123456789abcdef"))
				if way.held {
					cred = testCredential
				}
				test(t, way.knowsAll, cred, func(at *ledger.Config) {
					if way.durable {
						at.URL = "sqlite:" + file
					}
				})
			})
		})
	}
}

func TestOutcomeOfAFailedOrder(t *testing.T) { // fault A10
	definite, nothingLeft, open := orders.NotPlacedByThisCall, orders.NotPlacedByThisCall, orders.Unknown
	rows := map[string]struct {
		steps []step
		want  orders.Outcome // expected outcome if knowsAll is false
		open  bool           // whether the outcome is unknown with every API key and ledger
	}{
		"a cap in the catalog's form":      {steps: []step{{status: 409, body: `{"code":"API_KEY_DAILY_CAP"}`}}, want: definite},
		"no connection":                    {steps: []step{noDial}, want: nothingLeft},
		"a refusal after no connection":    {steps: []step{noDial, refusedNow}, want: definite},
		"a refusal after a 429":            {steps: []step{{status: 429}, refusedNow}, want: open},
		"a 429 until the deadline":         {steps: []step{{status: 429}}, want: open},
		"a status that is not in the list": {steps: []step{{status: 418, body: `{"code":"TEAPOT"}`}}, open: true},
		"a redirect":                       {steps: []step{{status: 307}}, open: true},
		"a conflict":                       {steps: []step{{status: 409, body: `{"code":"CONFLICT"}`}}, open: true},
		"a refusal of the idempotency key": {steps: []step{{status: 422, body: `{"code":"IDEMPOTENCY_KEY_REUSED"}`}}, open: true},
		"a refusal after a lost answer":    {steps: []step{away, refusedNow}, open: true},
		"no answer":                        {steps: []step{away}, open: true},
	}
	for _, status := range []int{400, 401, 402, 403, 404, 413, 422} {
		row := rows["no answer"]
		row.open, row.want, row.steps = false, definite, []step{{status: status, body: `{"code":"NO","message":"no"}`}}
		rows[fmt.Sprintf("a %d in the catalog's form", status)] = row
		row.open, row.steps = true, []step{{status: status, body: "<html>no</html>"}}
		rows[fmt.Sprintf("a %d of a proxy", status)] = row
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			inEachWay(t, func(t *testing.T, knowsAll bool, cred catalog.Credential, at func(*ledger.Config)) {
				c := newClient(t, catalog.Config{BaseURL: testURL, Transport: &script{steps: row.steps}}, at)
				_, err := createWithin(t, c, cred, plainOrder, 5*time.Second)
				want := row.want
				switch {
				case row.open:
					want = orders.Unknown
				case knowsAll:
					want = orders.NotPlaced
				}
				if err == nil || err.Outcome != want {
					t.Errorf("got %+v, want %s", err, want)
				}
			})
		})
	}
}

func TestOutcomeOfAnOrderThatIsTooDear(t *testing.T) { // fault A10
	inEachWay(t, func(t *testing.T, knowsAll bool, cred catalog.Credential, at func(*ledger.Config)) {
		upstream := &script{steps: []step{placed}, quote: step{status: 200, body: `{"priceCents":9}`}}
		c := newClient(t, catalog.Config{BaseURL: testURL, Transport: upstream}, at)
		dear := plainOrder
		dear.MaxCostCents = new(int64(5))
		want := orders.NotPlacedByThisCall
		if knowsAll {
			want = orders.NotPlaced
		}
		if _, err := createWithin(t, c, cred, dear, 5*time.Second); err == nil || err.Outcome != want || len(upstream.keys) != 0 {
			t.Errorf("got %+v after %d attempts, want %s", err, len(upstream.keys), want)
		}
	})
}

func TestAGenerationOfAnotherOrderIsAFaultOfTheLedger(t *testing.T) { // fault M10
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, &script{steps: []step{placed}}) // the catalog returns the same generation for every order
		other := plainOrder
		other.IdempotencyKey = "other"
		if _, err := createWithin(t, c, testCredential, plainOrder, time.Second); err != nil {
			t.Fatal(err)
		}
		_, err := createWithin(t, c, testCredential, other, time.Second)
		if err == nil || err.Outcome != orders.Unknown || !ledger.IsFault(err) || c.ledger.Counts.Faults.Load() != 1 {
			t.Errorf("got %+v, %d faults", err, c.ledger.Counts.Faults.Load())
		}
	})
}
