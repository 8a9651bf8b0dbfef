package catalog

import (
	"context"
	"math"
	"time"
)

type failureTimeoutKey struct{}

// WithFailureTimeout has [Client.Create] end once this long has passed and the last attempt has failed, with its
// error. The attempts go on as for a caller that has gone.
func WithFailureTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, failureTimeoutKey{}, d)
}

// failureTimeout is that of a caller. Without one it never comes.
func failureTimeout(ctx context.Context) time.Duration {
	if d, wanted := ctx.Value(failureTimeoutKey{}).(time.Duration); wanted {
		return d
	}
	return math.MaxInt64
}

// lookAgain is how often a caller looks for a failed attempt when its failure timeout is over.
const lookAgain = 100 * time.Millisecond
