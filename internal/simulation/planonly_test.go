package simulation

import (
	"math/rand/v2"
	"slices"
	"time"
)

// only returns a short kind with one sort of trouble.
func only(id string) kind {
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.name == "short" })
	k := kinds[at]
	k.name, k.troubles = "only-"+id, []string{id}
	k.shape = func(r *rand.Rand, p *plan) {
		kinds[at].shape(r, p)
		switch id {
		case "A11":
			p.rotate()
		case "U7":
			p.Held, p.Tenants = true, 1
		case "U19", "U21":
			p.Length = 40 * time.Minute
			if id == "U21" {
				p.Length = 4 * time.Hour
			}
		}
		if !p.takes(id) {
			p.Dialect, p.Held, p.Replicas = "default", false, 1
		}
	}
	return k
}

// onlyOfTeams returns a short kind with a ledger and one sort of trouble.
func onlyOfTeams(id string) kind {
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.name == "teams-short" })
	k := kinds[at]
	k.name, k.troubles = "ledger-"+id, []string{id}
	k.shape = func(r *rand.Rand, p *plan) {
		kinds[at].shape(r, p)
		switch id {
		case "T10":
			p.Rotates = true
		case "A10m":
			p.Poor = true
		case "M5":
			p.Events, p.Failures = true, 0.3
		case "T12": // no other callers: only the replica of a young order knows it
			p.Workers, p.Skew = 0, []time.Duration{24 * time.Hour, -24 * time.Hour}[r.IntN(2)]
		case "T11", "M8", "M12":
			p.forget()
			p.Length = 8 * time.Minute
			if id == "M12" { // its replica is frozen for half of that
				p.Length *= 2
			}
		case "U19":
			p.Length = 20 * time.Minute
		}
		if !p.takes(id) {
			p.Dialect = "default"
		}
	}
	return k
}

// onlyOfPolls returns a short run of a world whose replicas watch the same, with one sort of trouble.
func onlyOfPolls(id string) kind {
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "polls-short" })]
	shape := k.shape
	k.name, k.troubles = "polls-only-"+id, []string{id}
	k.shape = func(r *rand.Rand, p *plan) {
		shape(r, p)
		p.Replicas = max(p.Replicas, 2)
		p.Rotates = id == "T10"
		switch id {
		case "P5", "P6":
			p.Length, p.Speed = 10*time.Minute, 0.05
		case "U21":
			p.Length, p.Pause = 100*time.Minute, 4*time.Minute
		}
		if !p.takes(id) {
			p.Dialect = "default"
		}
	}
	return k
}

// onlyOfTheGate returns a short kind whose catalog accepts few orders, with one sort of trouble.
func onlyOfTheGate(id string) kind {
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "gate-short" })]
	k.name, k.troubles = "gate-only-"+id, []string{id}
	return k
}
