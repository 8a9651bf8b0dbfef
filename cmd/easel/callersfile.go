package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
)

// askLedger is the timeout of the ledger query in warnOfMissingOwners.
const askLedger = 2 * time.Second

// loadCallers loads a callers file. After the first load, and again after each reload of a changed file, it passes the teams in
// the file to notifier and calls warnOfMissingOwners.
func loadCallers(ctx context.Context, path string, led *ledger.Ledger, notifier *notifier, logger *slog.Logger) (*auth.Callers, error) {
	return auth.LoadCallers(path, logger, func(list *auth.List) {
		notifier.replaceTeams(list)
		warnOfMissingOwners(context.WithoutCancel(ctx), led, list, logger)
	})
}

// fileProblems returns the problems with the secret and key files to which a callers file refers. A server checks these files
// only at startup, so that a broken file does not block a later change of the callers file, such as the removal of a token.
func fileProblems(list *auth.List) (problems []string) {
	check := func(whose string, receiver *auth.Events) {
		if receiver == nil {
			return
		}
		if err := events.CheckSecrets(receiver.SecretFile); err != nil {
			problems = append(problems, fmt.Sprintf("secret_file of %s: %v", whose, err))
		}
	}
	check("total", list.Total.Events)
	for name, team := range list.Teams {
		check("the team "+name, team.Events)
	}
	for name, issuer := range list.Issuers {
		if err := issuer.Check(); err != nil {
			problems = append(problems, fmt.Sprintf("the issuer %s: %v", name, err))
		}
	}
	slices.Sort(problems)
	return problems
}

// warnOfMissingOwners logs a warning if the owner of an order with an unknown outcome is missing from the callers file, because
// no caller can then repeat the order. The log contains only the number of missing owners, because an owner may be an API key's
// digest.
func warnOfMissingOwners(ctx context.Context, led *ledger.Ledger, list *auth.List, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, askLedger)
	defer cancel()
	owners, err := led.UnresolvedOwners(ctx)
	if err != nil {
		logger.WarnContext(ctx, "callers file not checked for missing owners", "error", err)
	}
	known := list.Owners()
	missing := slices.DeleteFunc(owners, func(owner string) bool { return slices.Contains(known, owner) })
	if len(missing) > 0 {
		logger.WarnContext(ctx, "callers file lacks owners of unresolved orders", "owners", len(missing), "hint", "add these owners again, or resolve the orders that 'easel orders list --unknown' shows")
	}
}

// checkCallers returns an error if a callers file, or a file to which it refers, is invalid.
func checkCallers(path string) error {
	known, err := auth.LoadCallers(path, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	if problems := fileProblems(known.List()); len(problems) > 0 {
		return fmt.Errorf("%s: %s", path, strings.Join(problems, "; "))
	}
	return nil
}

// notifier supplies the ledger's event configuration: the teams, and the functions that build the data of events. When the
// callers file changes, the teams are replaced.
type notifier struct {
	teams events.Teams
	data  service.EventData
	count func(team, outcome string, events int64)
}

// eventConfig returns the ledger's event configuration, which always uses the current teams.
func (n *notifier) eventConfig() *ledger.EventConfig {
	return &ledger.EventConfig{Teams: n.teams.Known, Generation: n.data.Generation, Budget: n.data.Budget}
}

// replaceTeams replaces the notifier's teams with the teams in a loaded callers file. Each caller without a team becomes a
// team of its own.
func (n *notifier) replaceTeams(list *auth.List) {
	teams := map[string]events.Team{}
	for _, caller := range list.Callers {
		teams[caller.Owner()] = n.teamOf(caller.Owner(), auth.Team{Budget: caller.Team.Budget})
	}
	for name, team := range list.Teams {
		teams[name] = n.teamOf(name, team)
	}
	teams[ledger.AllOwners] = n.teamOf(ledger.AllOwners, list.Total)
	n.teams.Set(teams)
}

// teamOf returns an owner's configuration for package events. If the owner has an event receiver, teamOf also adds 0 to each of
// the owner's event counters, so that the metric has values before the first event.
func (n *notifier) teamOf(owner string, team auth.Team) events.Team {
	one := events.Team{
		Limits: service.LimitsOf(team.Budget), Thresholds: slices.Sorted(slices.Values(team.Thresholds)),
		Retention: time.Duration(team.RetentionDays) * 24 * time.Hour, KeepDeleted: team.KeepDeleted,
	}
	if team.Events != nil {
		one.URL, one.SecretFile = team.Events.URL, team.Events.SecretFile
		for _, outcome := range []string{events.OutcomeSent, events.OutcomeFailed, events.OutcomeGivenUp} {
			n.count(owner, outcome, 0)
		}
	}
	return one
}
