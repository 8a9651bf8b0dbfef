package simulation

import (
	"time"
)

func onceCharged(o *outcome, say func(event, string, ...any)) {
	for name, books := range o.books {
		if err := books.Check(); err != nil {
			say(event{actor: name}, "%v", err)
		}
	}
	ids := map[string]string{} // by key
	ordered := map[string]bool{}
	for _, e := range o.events {
		if e.kind == sawOrder {
			ordered[e.text] = true
		}
		if e.kind != sawPlaced {
			continue
		}
		if other, ok := ids[e.text]; ok && other != e.gen {
			say(e, "the key %s stood for %s before", e.text, other)
		}
		ids[e.text] = e.gen
	}
	charged := map[string]string{} // by key
	for _, books := range o.books {
		for _, g := range books.Generations {
			id, placed := ids[g.IdempotencyKey]
			switch other, twice := charged[g.IdempotencyKey]; {
			case !ordered[g.IdempotencyKey]:
				say(event{gen: g.ID}, "its key %q is none of an order", g.IdempotencyKey)
			case twice:
				say(event{gen: g.ID}, "its key %s was charged for %s too", g.IdempotencyKey, other)
			case placed && id != g.ID:
				say(event{gen: g.ID}, "its key %s was answered with %s", g.IdempotencyKey, id)
			}
			charged[g.IdempotencyKey] = g.ID
		}
	}
	for key := range charged {
		delete(ids, key)
	}
	for key, id := range ids {
		say(event{gen: id}, "it was placed with the key %s, and is not in the books", key)
	}
}

func refusedNotCharged(o *outcome, say func(event, string, ...any)) {
	last := map[string]event{} // by key
	for _, e := range o.events {
		if e.kind == sawOrder || e.kind == sawPlaced || e.kind == sawRefused {
			last[e.text] = e
		}
	}
	for _, books := range o.books {
		for _, g := range books.Generations {
			if e := last[g.IdempotencyKey]; e.kind == sawRefused {
				say(e, "it was refused for good with %s, and charged as %s", e.gen, g.ID)
			}
		}
	}
}

func everyPostIsOurs(o *outcome, say func(event, string, ...any)) {
	sent := 0
	for _, r := range o.requests {
		if r.op == routePlace {
			sent++
			if r.key == "" {
				say(event{at: r.at, actor: r.process}, "an order was sent without a key")
			}
		}
	}
	if o.posts > sent {
		say(event{}, "%d orders arrived, %d were sent", o.posts, sent)
	}
}

func oneSubmission(o *outcome, say func(event, string, ...any)) {
	type submission struct{ process, tenant, key string }
	ends, placed := map[submission]time.Duration{}, map[submission]time.Duration{}
	for _, r := range o.sent() {
		if r.op != routePlace {
			continue
		}
		s := submission{r.process, r.tenant, r.key}
		at := event{at: r.at, actor: r.process, gen: r.key}
		if end, ok := ends[s]; ok && r.at < end {
			say(at, "an attempt began before the one before had ended at %v", end)
		}
		ends[s] = r.end
		if when, ok := placed[s]; ok && r.at > when && r.at < when+23*time.Hour {
			say(at, "it was sent although the order was answered at %v", when)
		}
		if _, ok := placed[s]; !ok && r.status/100 == 2 && !o.excused(r.at, r.end, "", "", reachOrders) {
			placed[s] = r.end
		}
	}
}

func ordersAreFinished(o *outcome, say func(event, string, ...any)) {
	for _, r := range o.requests {
		if r.op == routePlace && r.cut && r.end-r.at < 14*time.Second && !o.excused(r.at, r.end+time.Minute, r.process, "", reachReplica) {
			say(event{at: r.at, actor: r.process, gen: r.key}, "the attempt was cut off after %v by the end of its context", r.end-r.at)
		}
	}
}
