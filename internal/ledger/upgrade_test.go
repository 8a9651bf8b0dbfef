package ledger_test

import (
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// oldOrder writes an order as the program of the first migration did.
func oldOrder(t *testing.T, url, id, namespace, key, rest string) {
	t.Helper()
	change(t, url, `INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, claims, claimed_until, retry_time,
		order_time, placed_time, observed_time, state, generation_id, reserved_cents, cost_cents, status, deleted, settled)
		VALUES ('`+id+`', '`+namespace+`', '`+namespace+`', 'poster-service', '`+key+`', 'up-`+id+`', '`+theAPIKey+`', 'studio/poster', 'd', 1, 0, 0, `+rest+`)`)
}

// A book may hold what the program of before got wrong.
func TestABookOfTheProgramOfBeforeIsTakenOver(t *testing.T) { // M1, M4, M7
	onEach(t, func(t *testing.T, url string) {
		ledger.FirstSchema(t, url)
		oldOrder(t, url, "ord_1", "studio", "twice", `1000, 1, 1, 2, 'g1', 0, 9, 4, 0, 1`)
		oldOrder(t, url, "ord_2", "print", "twice", `2000, 1, 1, 2, 'g2', 0, 9, 4, 0, 1`)
		oldOrder(t, url, "ord_3", "studio", "late cost", `3000, 1, 1, 2, 'g3', 11, NULL, 1, 0, 0`)
		oldOrder(t, url, "ord_4", "studio", "one 404", `4000, 1, 1, 2, 'g4', 0, 9, 1, 1, 1`)
		l := open(t, url)

		third := moved("twice")
		third.Namespace, third.Owner = "poster", "poster"
		if _, step := call(t, l, third); step.Answer != lifecycle.Reused {
			t.Errorf("a key that was used twice is answered %+v in a third team", step)
		}
		if free, err := l.IsFree(t.Context(), third); free || err != nil {
			t.Errorf("and is free: %v", err)
		}
		for _, cents := range []int64{0, 0} {
			observe(t, l, "g3", lifecycle.Observation{Status: lifecycle.Running, CostCents: &cents})
		}
		if o := own(t, l, "g3"); o.ReservedCents != 11 {
			t.Errorf("of the price before its charge is told %d cents are reserved", o.ReservedCents)
		}
		observe(t, l, "g4", lifecycle.Observation{Status: lifecycle.Succeeded})
		if o := own(t, l, "g4"); o.IsGone() {
			t.Errorf("one that was seen again is gone: %+v", o)
		}
		observe(t, l, "g1", lifecycle.Observation{Deleted: true})
		if o := own(t, l, "g1"); o.UnconfirmedCents != 0 {
			t.Errorf("of one that had ended %d cents are unconfirmed", o.UnconfirmedCents)
		}
	})
}

func own(t *testing.T, l *ledger.Ledger, generation string) ledger.Order {
	t.Helper()
	found, err := l.Own(t.Context(), nil, generation)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", generation, found, err)
	}
	return found[generation]
}
