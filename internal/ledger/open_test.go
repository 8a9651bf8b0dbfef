package ledger_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestAnOwnerHasSoManyOrdersWithoutAnOutcomeAndNoMore(t *testing.T) { // A6
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		first := write(t, l, request("first"))
		l.Exec(t, `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < `+strconv.Itoa(ledger.MostOpen)+`)
			INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, state, claims, claimed_until, order_time, retry_time, reserved_cents)
			SELECT id || i, namespace, owner, caller, idempotency_key || i, upstream_key, api_key, model_id, digest, state, claims, claimed_until, order_time, retry_time, 0 FROM orders, n`)
		if _, step, err := l.Call(t.Context(), request("one more")); !errors.Is(err, ledger.ErrTooManyOpen) {
			t.Errorf("one more is %+v, %v", step, err)
		}
		if _, step := call(t, l, request("first")); step.Action != lifecycle.Wait {
			t.Errorf("one of them is %+v", step)
		}
		other := request("one more")
		other.Namespace, other.Owner, other.Caller = "print", "print", "printer"
		if _, step := call(t, l, other); step.Action != lifecycle.Write {
			t.Errorf("another owner's is %+v", step)
		}
		conclude(t, l, first, lifecycle.Named, "g1")
		if _, step := call(t, l, request("one more")); step.Action != lifecycle.Write {
			t.Errorf("one more, after one has an outcome, is %+v", step)
		}
	})
}
