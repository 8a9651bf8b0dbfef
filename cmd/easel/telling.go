package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
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

func newTelling(catalog string) *telling {
	return &telling{data: service.EventData{Catalog: catalog}, counts: map[string]map[string]int64{}}
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
		one := events.Team{Limits: service.LimitsOf(team), Retention: time.Duration(team.RetentionDays) * 24 * time.Hour}
		if team.Events != nil {
			one.URL, one.SecretFile = team.Events.URL, team.Events.SecretFile
			t.count(team.Name, events.OutcomeSent, 0)
		}
		teams[team.Name] = one
	}
	t.teams.Set(teams)
}

// sender makes what sends the events.
func (t *telling) sender(book *ledger.Ledger, logger *slog.Logger) *events.Sender {
	return events.New(events.Config{Ledger: book, Teams: &t.teams, Logger: logger, Count: t.count})
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

// eventFaults are the files of secrets that can't be used, with their lines in the callers file. Files that the teams in
// force have already are not looked at: the sender reads them again by itself, and one that breaks holds up no other
// change of the callers file, as that of a token that must be taken out.
func eventFaults(list *callers.List, inForce ...callers.Team) (faults callers.Faults) {
	for _, team := range list.Teams() {
		has := func(other callers.Team) bool {
			return other.Events != nil && other.Events.SecretFile == team.Events.SecretFile
		}
		if team.Events == nil || slices.ContainsFunc(inForce, has) {
			continue
		}
		if err := events.CheckSecrets(team.Events.SecretFile); err != nil {
			faults = append(faults, callers.Fault{Line: team.Events.Line, Text: fmt.Sprintf("secret_file of the team %s: %v", team.Name, err)})
		}
	}
	return faults
}
