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
)

// askLedger is the time that a changed callers file waits for the ledger.
const askLedger = 2 * time.Second

// loadCallers reads a callers file, and applies its later changes.
func loadCallers(ctx context.Context, path string, book *ledger.Ledger, notifier *notifier, logger *slog.Logger) (*auth.Callers, error) {
	known, err := auth.LoadCallers(path, logger, func(inForce, next *auth.List) error {
		owners := next.Owners()
		dropped := slices.DeleteFunc(inForce.Owners(), func(owner string) bool { return slices.Contains(owners, owner) })
		if err := keepsOwners(ctx, book, dropped); err != nil {
			return err
		}
		notifier.take(next)
		return nil
	})
	if err != nil {
		return nil, err
	}
	warnOfMissingOwners(ctx, book, known.List(), logger)
	return known, nil
}

// fileProblems returns the problems of the files that a callers file names. These files are checked only at startup. Later, a
// broken file must not prevent another change, such as the removal of a token.
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

// warnOfMissingOwners warns at startup of orders of unknown outcome whose owner the callers file lacks. It does not stop the
// server, since the previous file is unknown. It prints no owner, which may be the digest of an API key.
func warnOfMissingOwners(ctx context.Context, book *ledger.Ledger, inForce *auth.List, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, askLedger)
	defer cancel()
	unresolved, err := book.UnresolvedOwners(ctx)
	if err != nil {
		logger.WarnContext(ctx, "cannot check the callers file for owners of unknown orders", "error", err)
		return
	}
	known := inForce.Owners()
	if missing := slices.DeleteFunc(unresolved, func(owner string) bool { return slices.Contains(known, owner) }); len(missing) > 0 {
		logger.WarnContext(ctx, "the callers file lacks owners of orders of unknown outcome: easel orders list --unknown --unowned lists them; add the owners again, or resolve the orders", "owners", len(missing))
	}
}

// checkCallers returns the error of a callers file, or of the files that it names.
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

// keepsOwners rejects a callers file that drops an owner with orders of unknown outcome, because no caller could resolve these
// orders.
func keepsOwners(ctx context.Context, book *ledger.Ledger, dropped []string) error {
	if len(dropped) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLedger)
	defer cancel()
	unresolved, err := book.UnresolvedOwners(ctx)
	if err != nil {
		return fmt.Errorf("it drops %s, and a ledger query for orders of unknown outcome failed: %w", strings.Join(dropped, ", "), err)
	}
	dropped = slices.DeleteFunc(dropped, func(owner string) bool { return !slices.Contains(unresolved, owner) })
	if len(dropped) > 0 {
		return fmt.Errorf("it drops %s, with orders of unknown outcome: it is applied when these outcomes are known", strings.Join(dropped, ", "))
	}
	return nil
}
