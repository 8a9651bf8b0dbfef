// Package events delivers the ledger's events to the webhook receivers of teams and to the readers of the event feed. A webhook
// request is signed. It is repeated until the receiver accepts it or the event is too old. The package consists of these files:
//
//	events    contains the teams and their receivers
//	sender    runs the jobs that deliver events
//	receiver  tracks the state of a receiver, and pauses deliveries after each failure
//	message   builds the signed CloudEvents document of an event
//	feed      passes new events to the readers of the event feed
package events

import (
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Team is the configuration of a team.
type Team struct {
	// URL is the address of the team's receiver, or empty if it has no receiver. SecretFile is the path of the file
	// with the signing secrets for that receiver.
	URL, SecretFile string
	// Limits contains the limits of the team's budgets. Thresholds are the percentages of a budget at which the team is
	// notified, in ascending order. If Thresholds is nil, [ledger.DefaultThresholds] are used.
	Limits     ledger.Limits
	Thresholds []int64
	// Retention is the time after which the content of the team's orders is erased. Zero means that it is never erased.
	Retention time.Duration
	// KeepDeleted means that the stored copy of a result is kept after the team deletes the generation.
	KeepDeleted bool
}

// Teams contains the current teams by name. The entry [ledger.AllOwners] contains the receiver for events about the total
// budget. The zero value contains no teams.
type Teams struct {
	inForce atomic.Pointer[map[string]Team]
	known   atomic.Pointer[map[string]ledger.Team]
}

// Set replaces all current teams.
func (t *Teams) Set(teams map[string]Team) {
	known := make(map[string]ledger.Team, len(teams))
	for name, team := range teams {
		known[name] = ledger.Team{Limits: team.Limits, Thresholds: team.Thresholds, Subscribed: team.URL != "", Retention: team.Retention, KeepDeleted: team.KeepDeleted}
	}
	t.inForce.Store(&teams)
	t.known.Store(&known)
}

// Known returns the current teams in the form that [ledger.EventConfig] expects.
func (t *Teams) Known() map[string]ledger.Team {
	if known := t.known.Load(); known != nil {
		return *known
	}
	return nil
}

// Get returns the team with the given name. hasReceiver is false if the team is unknown or has no receiver.
func (t *Teams) Get(name string) (team Team, hasReceiver bool) {
	team = t.teams()[name]
	return team, team.URL != ""
}

func (t *Teams) teams() map[string]Team {
	if teams := t.inForce.Load(); teams != nil {
		return *teams
	}
	return nil
}
