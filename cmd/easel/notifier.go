package main

import (
	"maps"
	"sync"
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

	mu     sync.Mutex
	counts map[string]map[string]int64 // by team and outcome
}

func newNotifier(data service.EventData) *notifier {
	return &notifier{data: data, counts: map[string]map[string]int64{}}
}

// outbox tells the ledger who is told of what.
func (n *notifier) outbox() *ledger.Outbox {
	return &ledger.Outbox{Teams: n.teams.Known, Generation: n.data.Generation, Budget: n.data.Budget}
}

// take takes over the owners of a callers file. Their counts begin at 0, so that a metric is seen before it grows.
func (n *notifier) take(list *auth.List) {
	teams := map[string]events.Team{}
	for _, caller := range list.Callers() {
		teams[caller.Owner()] = events.Team{Limits: service.LimitsOf(caller.Team)}
	}
	for _, team := range list.Teams() {
		one := events.Team{Limits: service.LimitsOf(team), Retention: time.Duration(team.RetentionDays) * 24 * time.Hour, KeepDeleted: team.KeepDeleted}
		if team.Events != nil {
			one.URL, one.SecretFile = team.Events.URL, team.Events.SecretFile
			n.count(team.Name, events.OutcomeSent, 0)
		}
		teams[team.Name] = one
	}
	n.teams.Set(teams)
}

// count counts what has come of events.
func (n *notifier) count(team, outcome string, more int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts[team] == nil {
		n.counts[team] = map[string]int64{events.OutcomeSent: 0, events.OutcomeFailed: 0, events.OutcomeGivenUp: 0}
	}
	n.counts[team][outcome] += more
}

// outcomes are the counts.
func (n *notifier) outcomes() map[string]map[string]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]map[string]int64{}
	for team, outcomes := range n.counts {
		all[team] = maps.Clone(outcomes)
	}
	return all
}
