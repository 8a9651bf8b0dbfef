package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/reload"
)

const (
	accountTimeout = 2 * time.Second  // timeout of a request that reads an API key's account
	accountPause   = 15 * time.Second // pause between two checks of the same API key

	firstAccountPause = 200 * time.Millisecond // pause after the first check at startup; each later pause is twice as long, up to accountPause
)

// errOtherAccount means that the shared API key belongs to a different account than the renders in the ledger. With this key,
// the catalog would not find the renders.
var errOtherAccount = errors.New("the API key and the orders in this ledger belong to different accounts of the catalog; use one ledger for each account")

// accountGuard checks that a shared API key belongs to the same account as the ledger. If the catalog returns no account ID, the
// guard accepts the API key.
type accountGuard struct {
	client *catalog.Client
	ledger *ledger.Ledger
	logger *slog.Logger

	// The time, the API key and the result of the last check by acceptKey.
	asked time.Time
	key   catalog.Secret
	err   error
}

// acceptKey returns an error if an API key belongs to a different account than the ledger, or if the check itself failed. If it
// is called again with the same API key within accountPause after an error, it returns that error without another check. Only
// the reload of the key file calls acceptKey, so calls are never concurrent.
func (g *accountGuard) acceptKey(key catalog.Secret) error {
	if g.key.Equal(key) && g.err != nil && time.Since(g.asked) < accountPause {
		return g.err
	}
	g.asked, g.key = time.Now(), key
	g.err = g.check(context.Background(), key)
	return g.err
}

func (g *accountGuard) check(ctx context.Context, key catalog.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	ctx, span := otel.Tracer("github.com/easel-grpc/easel/cmd/easel").Start(ctx, "check account", trace.WithNewRoot())
	defer span.End()
	account, err := g.client.Polls().Account(ctx, catalog.Forwarded(key))
	if unanswered[catalog.KindOf(err)] || ctx.Err() != nil {
		return err
	}
	if account.ID == "" { // if the catalog returned an unreadable record, or one without an account ID, the key is accepted
		return nil
	}
	own, err := g.ledger.BelongsTo(ctx, account.ID)
	if err == nil && !own {
		return errOtherAccount
	}
	return err
}

// unanswered contains the kinds of errors that leave the API key's account unknown. A later check may succeed.
var unanswered = map[catalog.Kind]bool{catalog.KindUnavailable: true, catalog.KindRateLimited: true, catalog.KindBusy: true, catalog.KindCredentialRejected: true}

// checkAtStart checks the API key at startup. It returns an error only if the key belongs to a different account than the
// ledger. If the account is still unknown, for example because the catalog does not respond, checkAtStart returns a function
// that repeats the check. The server must run this function in the background. No order is sent until the check has succeeded.
func (g *accountGuard) checkAtStart(ctx context.Context, currentKey func() catalog.Secret) (checkAgain func(context.Context) error, err error) {
	first := g.check(ctx, currentKey())
	if first == nil || errors.Is(first, errOtherAccount) {
		return nil, first
	}
	g.ledger.AccountUnknown.Store(true)
	g.logger.WarnContext(ctx, "account check pending", "effect", "orders wait", "error", first)
	return func(ctx context.Context) error { return g.checkRepeatedly(ctx, currentKey) }, nil
}

// checkRepeatedly checks the API key repeatedly, until its account is known or ctx is done. The first pauses are short, because
// orders wait for the check. It returns an error only if the API key belongs to a different account than the ledger. The error
// stops the server.
func (g *accountGuard) checkRepeatedly(ctx context.Context, currentKey func() catalog.Secret) error {
	for pause := firstAccountPause; ; pause = min(2*pause, accountPause) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		switch err := g.check(ctx, currentKey()); {
		case errors.Is(err, errOtherAccount):
			return err
		case err == nil:
			g.ledger.AccountUnknown.Store(false)
			g.logger.InfoContext(ctx, "account check passed")
			return nil
		}
	}
}

// openHeldKey reads the shared API key, and reloads it when its file changes. If acceptKey is not nil, it is called with each
// reloaded key, but not with the first key. If acceptKey returns an error, the previous key remains in use.
func openHeldKey(path string, logger *slog.Logger, acceptKey func(catalog.Secret) error) (*reload.Value[catalog.Secret], error) {
	first := true
	value, err := reload.Open("upstream key", logger, func(contents ...[]byte) (catalog.Secret, error) {
		key, err := parseKey(contents...)
		if err == nil && !first && acceptKey != nil {
			err = acceptKey(key)
		}
		first = false
		return key, err
	}, path)
	if err == nil {
		value.Describe = func(before, after catalog.Secret) []any {
			return []any{"before", fingerprintOf(catalog.Forwarded(before).APIKeySum()), "after", fingerprintOf(catalog.Forwarded(after).APIKeySum())}
		}
	}
	return value, err
}

// fingerprintOf returns the first 16 hex digits of an API key's digest, prefixed with "sha256:". They identify the key in logs
// and in the audit log.
func fingerprintOf(apiKeySum string) string { return "sha256:" + apiKeySum[:16] }

// parseKey returns the API key from the contents of its file. It removes one line break at the end, because editors and the
// command echo add one. Its errors never contain the contents.
func parseKey(contents ...[]byte) (key catalog.Secret, err error) {
	text := strings.TrimSuffix(strings.TrimSuffix(string(contents[0]), "\n"), "\r")
	switch {
	case text == "":
		return key, errors.New("is empty")
	case len(text) > 4096:
		return key, errors.New("is too long for an API key")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return key, errors.New("contains spaces, line breaks or other characters that are invalid in an API key")
	}
	return catalog.NewSecret(text), nil
}
