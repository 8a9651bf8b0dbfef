package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// openLabeled opens a ledger with one labeled and settled order for each generation.
func openLabeled(t *testing.T, generations ...string) *ledger.Ledger {
	t.Helper()
	led, err := ledger.Open(t.Context(), ledger.Config{URL: ledger.InMemory, Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { led.Close() })
	for _, generation := range generations {
		id := writeOrder(t, led, generation)
		_, err := led.Conclude(t.Context(), id, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: generation})
		if err == nil {
			_, err = led.Observe(t.Context(), generation, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: new(int64(9)), Whole: true}, Record: "{}"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return led
}

// asAda returns the context of a call by the operator ada.
func asAda(t *testing.T) context.Context {
	t.Helper()
	return withBy(t.Context(), ledger.By{Actor: "ada", Origin: "192.0.2.7"})
}

// writeOrder writes an order with the label customer=4711 to a ledger, and returns the order's ID.
func writeOrder(t *testing.T, led *ledger.Ledger, key string) string {
	t.Helper()
	o, _, err := led.Write(t.Context(), ledger.Request{
		Namespace: "studio", Owner: "studio", Caller: "studio", IdempotencyKey: key, UpstreamKey: key, APIKey: "a", ModelID: "m", Digest: "d",
		Labels: map[string]string{"customer": "4711"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}

// customerKeys returns the idempotency keys of the orders that have the label customer=4711.
func customerKeys(t *testing.T, led *ledger.Ledger) (keys []string) {
	t.Helper()
	found, err := led.List(t.Context(), ledger.Filter{AnyState: true, Labels: map[string]string{"customer": "4711"}}, ledger.Position{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range found {
		keys = append(keys, o.IdempotencyKey)
	}
	slices.Sort(keys)
	return keys
}

func TestErasureSkipsOrdersWithUnknownOutcome(t *testing.T) {
	led := openLabeled(t)
	open, refused := writeOrder(t, led, "open"), writeOrder(t, led, "refused")
	if _, err := led.Conclude(t.Context(), refused, 1, ledger.Conclusion{Outcome: lifecycle.Uncertain}); err != nil {
		t.Fatal(err)
	}
	if _, possible, err := led.Resolve(t.Context(), refused, "another API key", ledger.Resolution{By: ledger.By{Actor: "pat"}}); err != nil || !possible {
		t.Fatal(possible, err)
	}
	done, err := Orders{Ledger: led}.serveErasure(asAda(t), Erasure{LabelName: "customer", LabelValue: "4711"})
	left := map[string]string{open: "its outcome is unknown: resolve it first"}
	if err != nil || done.Erased != 1 || done.Next != nil || !maps.Equal(done.Left, left) {
		t.Errorf("the erasure returned %+v, %v", done, err)
	}
	if left := customerKeys(t, led); !slices.Equal(left, []string{"open"}) {
		t.Errorf("the orders with the label are %q", left)
	}
}

func TestManyOrdersAreErasedInSteps(t *testing.T) {
	const orders = eraseBatchSize + 1
	var names []string
	for n := range orders {
		names = append(names, fmt.Sprintf("gen_%d", n))
	}
	led, asked, erased, steps := openLabeled(t, names...), Erasure{Owner: "studio"}, int64(0), 0
	for next := true; next; next = asked.After != nil {
		done, err := Orders{Ledger: led}.serveErasure(asAda(t), asked)
		if err != nil {
			t.Fatal(err)
		}
		asked.After, erased, steps = done.Next, erased+done.Erased, steps+1
	}
	if erased != orders || steps != 2 || len(customerKeys(t, led)) > 0 {
		t.Errorf("%d orders were erased in %d steps", erased, steps)
	}
}
