package promises

// chargedOnce compares the orders of callers with the accounts of the catalog.
func chargedOnce(r *Run, say Say) {
	for name, account := range r.Accounts {
		if err := account.Check(); err != nil {
			say(Event{Actor: name}, "%v", err)
		}
	}
	ids := map[string]string{} // generation IDs by key
	ordered := map[string]bool{}
	for _, e := range r.Events {
		key := r.UpstreamKey(e, e.Text)
		if e.Kind == Ordered {
			ordered[key] = true
		}
		if e.Kind != Placed {
			continue
		}
		if other, ok := ids[key]; ok && other != e.Generation {
			say(e, "the key %s was answered with %s before", e.Text, other)
		}
		ids[key] = e.Generation
	}
	charged := map[string]string{} // charged generations by key
	for _, account := range r.Accounts {
		for _, g := range account.Generations {
			id, placed := ids[g.IdempotencyKey]
			switch other, twice := charged[g.IdempotencyKey]; {
			case IsPast(g.IdempotencyKey):
			case !ordered[g.IdempotencyKey]:
				say(Event{Generation: g.ID}, "its key %q belongs to no order", g.IdempotencyKey)
			case twice:
				say(Event{Generation: g.ID}, "its key %s was charged for %s too", g.IdempotencyKey, other)
			case placed && id != g.ID:
				say(Event{Generation: g.ID}, "its key %s was answered with %s", g.IdempotencyKey, id)
			}
			charged[g.IdempotencyKey] = g.ID
		}
	}
	for key, id := range ids {
		if charged[key] == "" {
			say(Event{Generation: id}, "it was placed with the key %s, and is not in the accounts", key)
		}
	}
}

// rejectedIsNotCharged checks the orders whose last response was a definite rejection.
func rejectedIsNotCharged(r *Run, say Say) {
	last := map[string]Event{} // latest event by key
	for _, e := range r.Events {
		if e.Kind == Ordered || e.Kind == Placed || e.Kind == Rejected {
			last[r.UpstreamKey(e, e.Text)] = e
		}
	}
	for _, account := range r.Accounts {
		for _, g := range account.Generations {
			if e := last[g.IdempotencyKey]; e.Kind == Rejected {
				say(e, "it was rejected with %s, and charged as %s", e.Generation, g.ID)
			}
		}
	}
}

// unplacedIsNotCharged checks the orders of which each call has returned that it did not place them.
func unplacedIsNotCharged(r *Run, say Say) {
	calls, unplaced, last := map[string]int{}, map[string]int{}, map[string]Event{}
	for _, e := range r.Events {
		switch {
		case e.Kind == Ordered:
			calls[r.UpstreamKey(e, e.Text)]++
		case e.Kind == Failed && e.Order != "" && (e.Outcome == NotPlaced || e.Outcome == NotPlacedByThisCall):
			key := r.UpstreamKey(e, e.Order)
			unplaced[key]++
			last[key] = e
		}
	}
	for _, account := range r.Accounts {
		for _, g := range account.Generations {
			if n := calls[g.IdempotencyKey]; n > 0 && n == unplaced[g.IdempotencyKey] {
				say(last[g.IdempotencyKey], "no call has placed it, and it was charged as %s", g.ID)
			}
		}
	}
}
