package lifecycle

import "testing"

// An expired order is never sent. It is rejected only if the catalog cannot have accepted an attempt.
func TestExpiredOrderIsNotSent(t *testing.T) {
	sending, left := Order{State: Open, Leases: 1, Leased: true, Expired: true}, Order{State: Open, Leases: 1, Expired: true}
	resending := Order{State: Open, Leases: 2, Leased: true, Expired: true}
	refused, placed := Order{State: Refused, Leases: 1, Expired: true}, Order{State: Placed, Generation: "g", Leases: 1, Expired: true}
	for name, test := range map[string]struct{ got, want Step }{
		"a call while an attempt is in flight": {sending.Call(true), Step{sending, Wait, Silence}},
		"a call after the lease expired":       {left.Call(true), Step{left, Nothing, Unresolved}},
		"a call with another request":          {left.Call(false), Step{left, Nothing, Reused}},
		"the recovery after the lease expired": {left.Resume(), Step{left, Nothing, Unresolved}},
		"no accepted attempt":                  {sending.Concluded(1, TurnedAway, ""), Step{refused, Nothing, NotPlaced}},
		"no accepted attempt in a resend":      {resending.Concluded(2, TurnedAway, ""), Step{Order{State: Open, Leases: 2, Expired: true}, Nothing, Unknown}},
		"an attempt without a response":        {sending.Concluded(1, Uncertain, ""), Step{left, Nothing, Unknown}},
		"an attempt that was accepted":         {sending.Concluded(1, Named, "g"), Step{placed, Nothing, Replay}},
		"a call after an attempt was accepted": {placed.Call(true), Step{placed, Nothing, Replay}},
		"a call after the order was rejected":  {refused.Call(true), Step{Order{}, Write, Silence}},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, test.got, test.want)
		}
	}
	if sending.May(1) {
		t.Error("the expired order may be sent again")
	}
	if next, possible := left.Resolve("g"); !possible || next.State != Placed {
		t.Errorf("an operator resolves the order: got %+v, %v", next, possible)
	}
}
