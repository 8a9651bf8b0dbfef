package systemtest

import (
	"encoding/json"
	"strconv"
	"testing"
)

// balance returns the balance of the account that the first API key belongs to, in cents.
func (f facility) balance() float64 {
	f.Helper()
	got := easel(f.T, f.caller(f.Keys[0]), "account", "-o", "json")
	var account struct{ BalanceCents string }
	err := json.Unmarshal([]byte(got.stdout), &account)
	left, err2 := strconv.ParseFloat(account.BalanceCents, 64)
	if err != nil || err2 != nil {
		f.Fatalf("exit %d: %v %v\n%s%s", got.exit, err, err2, got.stdout, got.stderr)
	}
	return left
}

func TestWhatIsSpentIsCountedOnceForAKeyThatTheProcessKnowsAndAgainAfterARestart(t *testing.T) {
	t.Parallel()
	f := newFacility(t, 1)
	before := f.balance()
	order := func() {
		t.Helper()
		env := f.caller(f.Keys[0])
		got := easel(t, env, "generate", "studio/landscape", "prompt=sea", "size=64x40", "--idempotency-key", "one", "-q")
		if got.exit != exitOK {
			t.Fatalf("exit %d\n%s", got.exit, got.stderr)
		}
	}
	spent := func() float64 {
		return f.Measured("easel_order_charged_total", `easel_caller="forwarded"`, `easel_model_id="studio/landscape"`)
	}
	order()
	order()
	cost := before - f.balance()
	if cost <= 0 || spent() != cost {
		t.Errorf("an order that was sent twice cost %v cents, but the metric shows %v", cost, spent())
	}
	f.Server.Stop()
	f.Serve()
	if spent() != 0 {
		t.Errorf("the metric shows %v cents before the first order", spent())
	}
	order() // a repeat of the order; the catalog's response does not show the new process that it is a repeat
	if charged := before - f.balance(); charged != cost || spent() != cost {
		t.Errorf("an order that was repeated to a new process cost %v cents, and the metric of this process shows %v", charged, spent())
	}
}
