// Package events tells teams what has become of their orders, without a stream: what the ledger has written into its
// outbox is sent to the receiver of the team, signed, until the receiver has taken it.
//
//	teams     who is told, and where
//	sender    what is sent when, by one process for all
//	receiver  how one team's receiver behaves
//	message   one event as a signed CloudEvents document
package events

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Team is a team that is told.
type Team struct {
	// URL is the address of its receiver, and SecretFile the file with the secrets that sign.
	URL, SecretFile string
	// Limits are its budgets.
	Limits ledger.Limits
}

// Teams are those that are told now, by name. The zero value has none.
type Teams struct {
	inForce atomic.Pointer[map[string]Team]
}

// Set changes who is told.
func (t *Teams) Set(teams map[string]Team) { t.inForce.Store(&teams) }

// Get gives a team, if it is told.
func (t *Teams) Get(name string) (team Team, told bool) {
	team, told = t.all()[name]
	return team, told
}

// Told is the function of an [ledger.Outbox].
func (t *Teams) Told(name string) (limits ledger.Limits, told bool) {
	team, told := t.Get(name)
	return team.Limits, told
}

// Names are the names of those who are told.
func (t *Teams) Names() []string { return slices.Sorted(maps.Keys(t.all())) }

func (t *Teams) all() map[string]Team {
	if teams := t.inForce.Load(); teams != nil {
		return *teams
	}
	return nil
}
