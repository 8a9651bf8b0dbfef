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

// askLedger is the timeout of the ledger query that checks a changed callers file.
const askLedger = 2 * time.Second

// loadCallers reads a callers file, and applies later changes to it.
func loadCallers(ctx context.Context, path string, led *ledger.Ledger, notifier *notifier, logger *slog.Logger) (*auth.Callers, error) {
	known, err := auth.LoadCallers(path, logger, func(inForce, next *auth.List) error {
		if err := keepsOwners(context.WithoutCancel(ctx), led, without(inForce.Owners(), next.Owners())); err != nil {
			return err
		}
		notifier.take(next)
		return nil
	})
	if err != nil {
		return nil, err
	}
	warnOfMissingOwners(ctx, led, known.List(), logger)
	return known, nil
}

// fileProblems returns the problems with the files that a callers file names. These files are checked only at startup. Later, a
// broken file must not prevent a change to the callers file, such as the removal of a token.
func fileProblems(list *auth.List) (problems []string) {
	for name, team := range list.Teams {
		if team.Events == nil {
			continue
		}
		if err := events.CheckSecrets(team.Events.SecretFile); err != nil {
			problems = append(problems, fmt.Sprintf("secret_file of the team %s: %v", name, err))
		}
	}
	for name, issuer := range list.Issuers {
		if err := issuer.Check(); err != nil {
			problems = append(problems, fmt.Sprintf("the issuer %s: %v", name, err))
		}
	}
	slices.Sort(problems)
	return problems
}

// without returns the names that are not in known.
func without(names, known []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(known, name) })
}

// unresolved returns the owners of orders whose outcome is unknown.
func unresolved(ctx context.Context, led *ledger.Ledger) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLedger)
	defer cancel()
	return led.UnresolvedOwners(ctx)
}

// warnOfMissingOwners logs a warning at startup if the callers file lacks the owner of an order whose outcome is unknown. It does
// not stop the server, because the previous file is unknown. It logs no owner, which may be an API key's digest.
func warnOfMissingOwners(ctx context.Context, led *ledger.Ledger, inForce *auth.List, logger *slog.Logger) {
	owners, err := unresolved(ctx, led)
	if err != nil {
		logger.WarnContext(ctx, "cannot check the callers file for owners of unknown orders", "error", err)
	}
	if missing := without(owners, inForce.Owners()); len(missing) > 0 {
		logger.WarnContext(ctx, "the callers file lacks owners of orders of unknown outcome: easel orders list --unknown --unowned lists them; add the owners again, or resolve the orders", "owners", len(missing))
	}
}

// keepsOwners rejects a callers file that drops the owner of an order whose outcome is unknown, because no caller could then
// resolve the order.
func keepsOwners(ctx context.Context, led *ledger.Ledger, dropped []string) error {
	if len(dropped) == 0 {
		return nil
	}
	owners, err := unresolved(ctx, led)
	if err != nil {
		return fmt.Errorf("it drops %s, and a ledger query for orders of unknown outcome failed: %w", strings.Join(dropped, ", "), err)
	}
	if needed := without(dropped, without(dropped, owners)); len(needed) > 0 {
		return fmt.Errorf("it drops %s, with orders of unknown outcome: it is applied when these outcomes are known", strings.Join(needed, ", "))
	}
	return nil
}

// checkCallers returns the error in a callers file, or in the files that it names.
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

// notifier notifies teams of events.
type notifier struct {
	teams events.Teams
	data  service.EventData
	count func(team, outcome string, events int64)
}

// eventConfig returns the subscribed teams and the event data for the ledger.
func (n *notifier) eventConfig() *ledger.EventConfig {
	return &ledger.EventConfig{Teams: n.teams.Known, Generation: n.data.Generation, Budget: n.data.Budget}
}

// take applies the teams in a callers file. Their event counts start at 0, so that the metric exists before the first event.
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
