package lifecycle

import (
	"hash/maphash"
	"testing"
)

// brokenPromise returns a description of the promise that the world breaks, or an empty string if it breaks none.
func (w *world) brokenPromise() string {
	charges, live := int(w.lost), 0
	for row, order := range w.rows {
		charged := w.charges[row] > 0
		charges += int(w.charges[row])
		if order.State == Open || order.State == Placed {
			live++
		}
		switch {
		case w.sent[row] && row >= int(w.written):
			return "an attempt was sent for an order that is not recorded"
		case w.toldPlaced[row] && order.State != Placed:
			return "a caller received a generation that the ledger lacks"
		case w.toldNot[row] && order.State != Refused:
			return "a caller received not_placed for an order that may be placed"
		case order.State == Refused && charged:
			return "the ledger released the money of an order that was charged"
		case order.State == Refused && w.late[row]:
			return "the ledger rejected an order that the catalog may still accept"
		case order.State == Placed && !w.hasGeneration(w.teams[row]):
			return "the ledger has a generation that the catalog does not have"
		}
	}
	switch {
	case charges > 1:
		return "the order was charged twice"
	case live > 1:
		return "a caller has two orders with the same idempotency key"
	case w.toldFree:
		return "a caller received not_placed although an order with its key exists"
	case w.fault:
		return "the ledger reported a contradiction"
	case w.unasked:
		return "the recovery has sent an order whose caller received not_placed"
	}
	return ""
}

// lossSince compares the world before a step with the world w after it. If the step overwrote a generation or forgot an order,
// lossSince returns a description of this. Otherwise, it returns an empty string. A step that restores a backup is exempt from
// this check.
func (w *world) lossSince(before world) string {
	if w.restored != before.restored {
		return ""
	}
	for row := range before.written {
		was, is := before.rows[row], w.rows[row]
		switch {
		case was.State == Placed && (is.State != Placed || is.Generation != was.Generation):
			return "a generation was overwritten"
		case was.State == Refused && is.State == Open, is.State == None:
			return "an order was reopened or lost"
		}
	}
	return ""
}

// canConclude simulates a crash of all processes, and then a time without failures in which callers repeat the orders
// that a restore has put on hold. It reports whether no promise is broken and every order gets an outcome. Orders that
// may no longer be sent need no outcome.
func (w world) canConclude() bool {
	w.replicas = [replicas]replica{} // all running processes crash
	for row := range w.written {
		order := w.rows[row]
		order.Leased = false // the lease expires
		step := order.Resume()
		if order.Held {
			step = order.Call(true)
		}
		if step.Action == Submit {
			w.receiveRequest(row, false)
			order = step.Order.Concluded(step.Order.Leases, Named, id).Order
		}
		if w.rows[row] = order; order.State == Open && !order.Expired && !order.Rotated {
			return false
		}
	}
	return w.brokenPromise() == ""
}

func TestEverySequenceOfEventsKeepsOrderInvariants(t *testing.T) {
	for name, keyFirst := range map[string]bool{"any catalog": false, "a catalog that checks the key first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			visitAllWorlds(t, world{keyFirst: keyFirst})
		})
	}
	t.Run("a restored backup", func(t *testing.T) {
		t.Parallel()
		visitAllWorlds(t, world{restores: true})
	})
}

// visitAllWorlds visits every state that the model can reach from the given one. It fails the test if a step breaks a
// promise, or if the outcome of an order would stay unknown. It remembers states by a 64-bit hash. With two million states,
// a collision is expected once in ten million runs of this function.
func visitAllWorlds(t *testing.T, start world) {
	seed, steps := maphash.MakeSeed(), 0
	seen := map[uint64]struct{}{maphash.Comparable(seed, start): {}}
	for todo := []world{start}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		w.visitNext(func(after *world) {
			steps++
			if why := after.brokenPromise() + after.lossSince(w); why != "" {
				t.Fatalf("%s:\nbefore: %+v\nafter: %+v", why, w, *after)
			}
			hash := maphash.Comparable(seed, *after)
			if _, known := seen[hash]; known {
				return
			}
			if seen[hash] = struct{}{}; len(seen) > 20_000_000 {
				t.Fatal("too many states can be reached")
			}
			if todo = append(todo, *after); !after.canConclude() {
				t.Fatalf("the outcome stays unknown although all failures have ended: %+v", *after)
			}
		})
	}
	t.Logf("%d states, %d steps between them", len(seen), steps)
	if len(seen) < 100_000 {
		t.Errorf("only %d states can be reached, want at least 100000", len(seen))
	}
}

func TestOperatorsResolutionOfOrderCanBeCorrected(t *testing.T) {
	unknown := Order{State: Open, Leases: 2, Expired: true}
	wrong, possible := unknown.Resolve("")
	if !possible || wrong.State != Refused {
		t.Fatalf("the resolved order is %+v, %v", wrong, possible)
	}
	for _, generation := range []string{"g1", "g2", ""} {
		if wrong, possible = wrong.Resolve(generation); !possible || wrong.Generation != generation || (wrong.State == Placed) != (generation != "") {
			t.Errorf("after the correction to %q, the order is %+v, %v", generation, wrong, possible)
		}
	}
	wrong, _ = wrong.Resolve("g1")
	for generation, action := range map[string]Action{"g1": Nothing, "g2": Report} {
		if named := wrong.Concluded(2, Named, generation); named.Order.Generation != generation || named.Order.Resolved || named.Action != action {
			t.Errorf("after the catalog returned %s the step is %+v", generation, named)
		} else if _, possible := named.Order.Resolve("g3"); possible {
			t.Errorf("an operator can change a generation that the catalog returned")
		}
	}
}

// A server keeps running while its ledger is restored from a backup, and then records that an order was not placed. The
// restored ledger contains this order with an unknown outcome. The outcome must stay unknown, because an attempt that is
// missing from the backup may have placed the order.
func TestRejectionDoesNotCloseOrderHeldAfterRestore(t *testing.T) {
	held := Order{State: Open, Leases: 1, Leased: true, Held: true}
	if step := held.Concluded(1, TurnedAway, ""); step.Order.State != Open || !step.Order.Held || step.Answer != Unknown {
		t.Errorf("the late conclusion returns %+v", step)
	}
}
