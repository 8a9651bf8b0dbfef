package main

import (
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
)

// notifier notifies teams of events.
type notifier struct {
	teams events.Teams
	data  service.EventData
	count func(team, outcome string, events int64)
}

// outbox returns the subscribed teams and the event data for the ledger.
func (n *notifier) outbox() *ledger.Outbox {
	return &ledger.Outbox{Teams: n.teams.Known, Generation: n.data.Generation, Budget: n.data.Budget}
}

// take applies the owners of a callers file. Their counts start at 0, so that the metric exists before it grows.
func (n *notifier) take(list *auth.List) {
	teams := map[string]events.Team{}
	for _, caller := range list.Callers {
		teams[caller.Owner()] = events.Team{Limits: service.LimitsOf(caller.Team)}
	}
	for name, team := range list.Teams {
		one := events.Team{Limits: service.LimitsOf(team), Retention: time.Duration(team.RetentionDays) * 24 * time.Hour, KeepDeleted: team.KeepDeleted}
		if team.Events != nil {
			one.URL, one.SecretFile = team.Events.URL, team.Events.SecretFile
			for _, outcome := range []string{events.OutcomeSent, events.OutcomeFailed, events.OutcomeGivenUp} {
				n.count(name, outcome, 0)
			}
		}
		teams[name] = one
	}
	n.teams.Set(teams)
}
