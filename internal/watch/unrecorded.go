package watch

import (
	"slices"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Sighting is a state in which this process has seen a generation.
type Sighting struct {
	catalog.Version
	// NotFound means that the catalog did not report the deletion. Easel inferred it, because for a long enough time no read
	// had found the generation.
	NotFound bool
}

// recording tracks which states of a generation are in the ledger.
type recording struct {
	etag       string     // etag of the last recorded state; if empty, the next state is recorded whatever its etag is
	unrecorded []Sighting // states that were observed after the last recorded state and must still be recorded, oldest first
}

// addState adds a state that must be recorded. It replaces an unrecorded state that the new state supersedes.
func (r *recording) addState(s Sighting) {
	if s.Etag == r.etag && len(r.unrecorded) == 0 {
		return
	}
	s.Inputs, s.Extra = nil, nil // the ledger stores neither inputs nor extra members
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

// supersedes reports whether an older state need not be recorded because the state s will be recorded. A terminal state has its
// own event and charge, so only the same state supersedes it. A deletion supersedes only an equal deletion. The list of
// unrecorded states stays short, because there are only a few terminal states.
func (s Sighting) supersedes(older Sighting) bool {
	if s.State == catalog.StateDeleted || older.State == catalog.StateDeleted {
		return s.State == older.State && s.NotFound == older.NotFound
	}
	status, before := StatusOf(s.State), StatusOf(older.State)
	return status == before || before <= min(status, lifecycle.Running)
}

// finishState is called after a state was recorded. It stores the state's etag, and removes the state from r.unrecorded
// unless a later state has replaced it there.
func (r *recording) finishState(s Sighting) {
	r.etag = s.Etag
	r.unrecorded = slices.DeleteFunc(r.unrecorded, func(one Sighting) bool { return one.Etag == s.Etag && one.NotFound == s.NotFound })
}

// StatusOf returns the ledger's status for a state in the catalog. It returns zero for a deleted or unrecognized state.
func StatusOf(s catalog.State) lifecycle.Status { return statuses[s] }

// StateOf returns the catalog's state for a status in the ledger. For a generation that was never observed, it returns queued.
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
