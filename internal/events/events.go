// Package events tells teams what has become of their orders, without a stream: what the ledger has written into its
// outbox is sent to the receiver of the team, signed, until the receiver has taken it.
//
//	teams     who is told, and where
//	sender    what is sent when, to each team by one process
//	receiver  how one team's receiver behaves
//	message   one event as a signed CloudEvents document
package events

import (
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Team is a team, which is told where it has a receiver.
type Team struct {
	// URL is the address of its receiver, "" where it has none, and SecretFile the file with the secrets that sign.
	URL, SecretFile string
	// Limits are its budgets.
	Limits ledger.Limits
	// Retention is after which time what names content of its orders is erased; 0 is never.
	Retention time.Duration
	// KeepDeleted means that copies of results stay which the team deletes in the catalog.
	KeepDeleted bool
}

// Teams are those of now, by name. The zero value has none.
type Teams struct {
	inForce atomic.Pointer[map[string]Team]
	known   atomic.Pointer[map[string]ledger.Team]
}

// Set changes them.
func (t *Teams) Set(teams map[string]Team) {
	known := make(map[string]ledger.Team, len(teams))
	for name, team := range teams {
		known[name] = ledger.Team{Limits: team.Limits, Subscribed: team.URL != "", Retention: team.Retention, KeepDeleted: team.KeepDeleted}
	}
	t.inForce.Store(&teams)
	t.known.Store(&known)
}

// Known is the function of an [ledger.Outbox].
func (t *Teams) Known() map[string]ledger.Team {
	if known := t.known.Load(); known != nil {
		return *known
	}
	return nil
}

// Get gives a team, if it is told.
func (t *Teams) Get(name string) (team Team, told bool) {
	team = t.all()[name]
	return team, team.URL != ""
}

func (t *Teams) all() map[string]Team {
	if teams := t.inForce.Load(); teams != nil {
		return *teams
	}
	return nil
}
