package watch

import (
	"slices"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Sighting is a state of a generation that this process has seen.
type Sighting struct {
	catalog.Version
	// NotFound means that only reads show that the generation is gone, and have done so for long enough.
	NotFound bool
}

// recording compares the states of a generation with the ledger.
type recording struct {
	etag       string     // etag of the latest recorded state; empty if the next state must be recorded in any case
	unrecorded []Sighting // later states, oldest first
}

// add adds a state, unless it is recorded. The state replaces an earlier one that need not be recorded any longer.
func (r *recording) add(s Sighting) {
	if s.Etag == r.etag && len(r.unrecorded) == 0 {
		return
	}
	s.Inputs, s.Extra = nil, nil // not recorded
	at := slices.IndexFunc(r.unrecorded, func(old Sighting) bool { return s.supersedes(old) })
	if at < 0 {
		r.unrecorded = append(r.unrecorded, s)
		return
	}
	if s.CostCents == nil {
		s.CostCents = r.unrecorded[at].CostCents
	}
	r.unrecorded[at] = s
}

// supersedes reports whether an older state need not be recorded if this one is. A terminal state must be recorded, because it
// has its own event and charge. So a generation has few unrecorded states.
func (s Sighting) supersedes(older Sighting) bool {
	if s.State == catalog.StateDeleted || older.State == catalog.StateDeleted {
		return s.State == older.State && s.NotFound == older.NotFound
	}
	status, before := StatusOf(s.State), StatusOf(older.State)
	return status == before || before <= min(status, lifecycle.Running)
}

// done removes a recorded state, unless another state has replaced it.
func (r *recording) done(s Sighting) {
	r.etag = s.Etag
	r.unrecorded = slices.DeleteFunc(r.unrecorded, func(one Sighting) bool { return one.Etag == s.Etag && one.NotFound == s.NotFound })
}

// StatusOf returns the ledger's status of a state of the catalog. A deleted or unrecognized state has none.
func StatusOf(s catalog.State) lifecycle.Status { return statuses[s] }

// StateOf returns the catalog's state of a status of the ledger. The state of a generation that was never seen is queued.
func StateOf(s lifecycle.Status) catalog.State {
	for state, status := range statuses {
		if status == s {
			return state
		}
	}
	return catalog.StateQueued
}

var statuses = map[catalog.State]lifecycle.Status{
	catalog.StateQueued: lifecycle.Queued, catalog.StateRunning: lifecycle.Running, catalog.StateSucceeded: lifecycle.Succeeded,
	catalog.StateFailed: lifecycle.Failed, catalog.StateRefunded: lifecycle.Refunded,
}
