package main

import (
	"maps"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/callers"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
)

// telling is what tells teams of events.
type telling struct {
	teams events.Teams
	data  service.EventData

	mu     sync.Mutex
	counts map[string]map[string]int64 // by team and outcome
}

func newTelling(data service.EventData) *telling {
	return &telling{data: data, counts: map[string]map[string]int64{}}
}

// outbox tells the ledger who is told of what.
func (t *telling) outbox() *ledger.Outbox {
	return &ledger.Outbox{Teams: t.teams.Known, Generation: t.data.Generation, Budget: t.data.Budget}
}

// take takes over the owners of a callers file. Their counts begin at 0, so that a metric is seen before it grows.
func (t *telling) take(list *callers.List) {
	teams := map[string]events.Team{}
	for _, caller := range list.Callers() {
		teams[caller.Owner()] = events.Team{Limits: service.LimitsOf(caller.Team)}
	}
	for _, team := range list.Teams() {
		one := events.Team{Limits: service.LimitsOf(team), Retention: time.Duration(team.RetentionDays) * 24 * time.Hour, KeepDeleted: team.KeepDeleted}
		if team.Events != nil {
			one.URL, one.SecretFile = team.Events.URL, team.Events.SecretFile
			t.count(team.Name, events.OutcomeSent, 0)
		}
		teams[team.Name] = one
	}
	t.teams.Set(teams)
}

// count counts what has come of events.
func (t *telling) count(team, outcome string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[team] == nil {
		t.counts[team] = map[string]int64{events.OutcomeSent: 0, events.OutcomeFailed: 0, events.OutcomeGivenUp: 0}
	}
	t.counts[team][outcome] += n
}

// outcomes are the counts.
func (t *telling) outcomes() map[string]map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]map[string]int64{}
	for team, outcomes := range t.counts {
		all[team] = maps.Clone(outcomes)
	}
	return all
}
