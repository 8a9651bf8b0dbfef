package main

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
)

// Exit codes. They are part of the interface: scripts decide by them.
const (
	exitOK           = 0
	exitFailure      = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitMoney        = 4
	exitCredential   = 5
	exitRetry        = 6
	exitRenderFailed = 7
	exitInterrupted  = 130
)

const exitCodes = `Exit codes:
    0   ok
    1   any other failure
    2   the command line, a setting or an input is wrong
    3   there is no such render or model
    4   refused for money: balance, daily cap, or the limit of --max-cost
    5   no key, a wrong key, or not allowed
    6   not now: server or catalog unavailable, rate limited, or time ran out; try again
    7   the render failed or was refunded
  130   interrupted
`

// problem is an error of this program itself, with the words for its reader.
type problem struct {
	exit int
	text string
	cure string // what to do about it; "" where it is plain
	err  error  // what lies below, nil where nothing does

	render string // the render that it is about, "" where it is about none or many
}

// Error is the first line of what is printed.
func (p *problem) Error() string { return p.text }

// Unwrap gives what lies below.
func (p *problem) Unwrap() error { return p.err }

// badUsage is the error of a command line or setting that makes no sense.
func badUsage(text, cure string) error {
	return &problem{exit: exitUsage, text: text, cure: cure}
}

// exitOf gives the exit code of a failed call.
func exitOf(code codes.Code, reason string) int {
	switch reason {
	case "INSUFFICIENT_BALANCE", "PRICE_ABOVE_LIMIT", "API_KEY_DAILY_CAP":
		return exitMoney
	case "IDEMPOTENCY_KEY_REUSED":
		return exitUsage
	case "CONTENT_NOT_READY":
		return exitRetry
	}
	switch code {
	case codes.InvalidArgument, codes.OutOfRange:
		return exitUsage
	case codes.NotFound:
		return exitNotFound
	case codes.Unauthenticated, codes.PermissionDenied:
		return exitCredential
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded:
		return exitRetry
	case codes.Canceled:
		return exitInterrupted
	}
	return exitFailure
}

// interrupted reports whether the program was told to stop. The error of a call says only
// that it was cancelled, so the program's own context decides.
func interrupted(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled)
}
