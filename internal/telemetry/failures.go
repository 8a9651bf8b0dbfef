package telemetry

import (
	"context"
	"errors"
	"log/slog"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// Failures logs failed requests to the catalog. It limits the number of lines, because every poll fails in the same way
// during an outage. The metrics count all failures.
type Failures struct{ *limitedLog }

// Polled logs the result of a poll at the debug level. If the poll failed, it also logs a warning, unless the poll was
// canceled or the generation was not found. ctx is the poll's context.
func (f *Failures) Polled(ctx context.Context, p watch.Poll, out watch.Outcome) {
	tenant, err := p.Tenant, out.Err
	if f.logger.Enabled(ctx, slog.LevelDebug) {
		f.logger.DebugContext(ctx, "poll", "kind", p.Kind(), "generation", p.ID, "api_key", tenant.Fingerprint(), "outcome", pollOutcome(err),
			"watches", p.Watches, "generations", p.Generations, "changes", len(out.Changes))
	}
	if err != nil && !errors.Is(err, context.Canceled) && catalog.KindOf(err) != catalog.KindNotFound {
		f.log(ctx, tenant, err)
	}
}

// Called logs a request to the catalog that failed during a call. It skips errors that the caller or this server caused,
// because the log line of the call contains them. ctx is the call's context.
func (f *Failures) Called(ctx context.Context, cred catalog.Credential, err error) {
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited, catalog.KindUnavailable, catalog.KindOutcomeUnknown:
		f.log(ctx, cred.Tenant, err)
	}
}

func (f *Failures) log(ctx context.Context, tenant catalog.Tenant, err error) {
	f.warn(ctx, "catalog failed", "api_key", tenant.Fingerprint(), "kind", catalog.KindOf(err).String(), "error", err.Error())
}
