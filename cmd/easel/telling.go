package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/easel-grpc/easel/internal/callers"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/watch"
)

// telling is what tells teams of events.
type telling struct {
	teams  events.Teams
	data   service.EventData
	sender atomic.Pointer[events.Sender]

	mu     sync.Mutex
	counts map[string]map[string]int64 // by team and outcome
}

func newTelling(catalog string) *telling {
	return &telling{data: service.EventData{Catalog: catalog}, counts: map[string]map[string]int64{}}
}

// outbox tells the ledger who is told of what.
func (t *telling) outbox() *ledger.Outbox {
	return &ledger.Outbox{Limits: t.teams.Limits, Generation: t.data.Generation, Budget: t.data.Budget, Written: func() {
		if sender := t.sender.Load(); sender != nil {
			sender.Wake()
		}
	}}
}

// take takes over the teams of a callers file. Their counts begin at 0, so that a metric is seen before it grows.
func (t *telling) take(list *callers.List) {
	teams := map[string]events.Team{}
	for _, team := range list.Teams() {
		one := events.Team{Limits: ledger.Limits{DailyCents: team.DailyCents, MonthlyCents: team.MonthlyCents}}
		if team.Events != nil {
			one.URL, one.SecretFile = team.Events.URL, team.Events.SecretFile
			t.count(team.Name, events.OutcomeSent, 0)
		}
		teams[team.Name] = one
	}
	t.teams.Set(teams)
}

// send sends events until stop is called.
func (t *telling) send(ctx context.Context, book *ledger.Ledger, logger *slog.Logger) (stop func()) {
	sender := events.New(events.Config{Ledger: book, Teams: &t.teams, Logger: logger, Count: t.count})
	t.sender.Store(sender)
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { sender.Run(ctx) })
	return func() {
		cancel()
		work.Wait()
	}
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

// watchUntilSettled watches a generation of the ledger for nobody else.
func watchUntilSettled(hub *watch.Hub) func(context.Context, catalog.Credential, string) error {
	return func(ctx context.Context, cred catalog.Credential, id string) error {
		return hub.Watch(ctx, watch.Request{Credential: cred, IDs: []string{id}, Ordered: map[string]bool{id: true}, Goal: watch.Settled}, func(watch.Event) error { return nil })
	}
}
