// Package events tells teams what has become of their orders, without a stream: what the ledger has written into its
// outbox is sent to the receiver of the team, signed, until the receiver has taken it.
//
//	teams     who is told, and where
//	sender    what is sent when, to each team by one process
//	receiver  how one team's receiver behaves
//	message   one event as a signed CloudEvents document
package events

import (
	"slices"
	"sync/atomic"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Team is a team, which is told where it has a receiver.
type Team struct {
	// URL is the address of its receiver, "" where it has none, and SecretFile the file with the secrets that sign.
	URL, SecretFile string
	// Limits are its budgets.
	Limits ledger.Limits
}

// Teams are those of now, by name. The zero value has none.
type Teams struct {
	inForce atomic.Pointer[map[string]Team]
}

// Set changes them.
func (t *Teams) Set(teams map[string]Team) { t.inForce.Store(&teams) }

// Get gives a team, if it is told.
func (t *Teams) Get(name string) (team Team, told bool) {
	team = t.all()[name]
	return team, team.URL != ""
}

// Limits is the function of an [ledger.Outbox].
func (t *Teams) Limits(name string) ledger.Limits { return t.all()[name].Limits }

// Names are the names of those who are told.
func (t *Teams) Names() (names []string) {
	for name, team := range t.all() {
		if team.URL != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (t *Teams) all() map[string]Team {
	if teams := t.inForce.Load(); teams != nil {
		return *teams
	}
	return nil
}
