// Package events delivers the ledger's events to the receivers of teams. Each event is signed, and sent until the receiver
// accepts it or the event is too old.
//
//	events    teams and their receivers
//	sender    the jobs that deliver events
//	receiver  the pause of a receiver that fails
//	message   an event as a signed CloudEvents document
package events

import (
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Team is the configuration of a team. It receives events if it has a receiver.
type Team struct {
	// URL is the address of the receiver, or empty if there is no receiver. SecretFile is the file with the signing secrets.
	URL, SecretFile string
	// Limits are the budgets of the team. Thresholds are the percentages of them at which it is notified, ascending. Nil means
	// the default.
	Limits     ledger.Limits
	Thresholds []int64
	// Retention is the time after which the content of the team's orders is erased. Zero means never.
	Retention time.Duration
	// KeepDeleted means that copies of results remain if the team deletes the generations in the catalog.
	KeepDeleted bool
}

// Teams contains the current teams by name, and the receiver of the total budget's events under [ledger.AllOwners]. The zero
// value is empty.
type Teams struct {
	inForce atomic.Pointer[map[string]Team]
	known   atomic.Pointer[map[string]ledger.Team]
}

// Set replaces the teams.
func (t *Teams) Set(teams map[string]Team) {
	known := make(map[string]ledger.Team, len(teams))
	for name, team := range teams {
		known[name] = ledger.Team{Limits: team.Limits, Thresholds: team.Thresholds, Subscribed: team.URL != "", Retention: team.Retention, KeepDeleted: team.KeepDeleted}
	}
	t.inForce.Store(&teams)
	t.known.Store(&known)
}

// Known returns the teams for a [ledger.EventConfig].
func (t *Teams) Known() map[string]ledger.Team {
	if known := t.known.Load(); known != nil {
		return *known
	}
	return nil
}

// Get returns a team. hasReceiver is false if it has no receiver.
func (t *Teams) Get(name string) (team Team, hasReceiver bool) {
	team = t.all()[name]
	return team, team.URL != ""
}

func (t *Teams) all() map[string]Team {
	if teams := t.inForce.Load(); teams != nil {
		return *teams
	}
	return nil
}
