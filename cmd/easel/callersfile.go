package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/callers"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
)

// askLedger is how long a changed callers file waits for the ledger.
const askLedger = 2 * time.Second

// callers are those that may use the held API key, nil where there is no callers file.
func (c *serveCmd) callers(ctx context.Context, book *ledger.Ledger, logger *slog.Logger) (*service.Callers, error) {
	if c.CallersFile == "" {
		return nil, nil
	}
	return service.LoadCallers(c.CallersFile, logger, func(inForce, next *callers.List) error {
		return keepsOwners(ctx, book, inForce.Dropped(next))
	})
}

// keepsOwners refuses a callers file that drops an owner with orders of unknown outcome: nobody would be left
// who could ask what became of them.
func keepsOwners(ctx context.Context, book *ledger.Ledger, dropped []string) error {
	if len(dropped) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLedger)
	defer cancel()
	unresolved, err := book.UnresolvedOwners(ctx)
	if err != nil {
		return fmt.Errorf("it drops %s, and the ledger does not say whether their orders are known: %w", strings.Join(dropped, ", "), err)
	}
	dropped = slices.DeleteFunc(dropped, func(owner string) bool { return !slices.Contains(unresolved, owner) })
	if len(dropped) > 0 {
		return fmt.Errorf("it drops %s, with orders of unknown outcome: it is taken over when they are known", strings.Join(dropped, ", "))
	}
	return nil
}
