package cli

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
)

// Exit codes. They are part of the interface: scripts decide by them.
const (
	ExitOK           = 0
	ExitFailure      = 1
	ExitUsage        = 2
	ExitNotFound     = 3
	ExitMoney        = 4
	ExitCredential   = 5
	ExitRetry        = 6
	ExitRenderFailed = 7
	ExitInterrupted  = 130
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

type exitCodesCmd struct{}

// Run prints the table.
func (exitCodesCmd) Run(p *Program) error {
	_, err := io.WriteString(p.Stdout, exitCodes)
	return err
}

// Problem is an error of this program itself, with the words for its reader.
type Problem struct {
	Exit int
	Text string
	Cure string // what to do about it; "" where it is plain
	Err  error  // what lies below, nil where nothing does

	render string // the render that it is about, "" where it is about none or many
}

// Error is the first line of what is printed.
func (p *Problem) Error() string { return p.Text }

// Unwrap gives what lies below.
func (p *Problem) Unwrap() error { return p.Err }

// badUsage is the error of a command line or setting that makes no sense.
func badUsage(text, cure string) error {
	return &Problem{Exit: ExitUsage, Text: text, Cure: cure}
}

// exitOf gives the exit code of a failed call.
func exitOf(code codes.Code, reason string) int {
	switch reason {
	case "INSUFFICIENT_BALANCE", "PRICE_ABOVE_LIMIT", "API_KEY_DAILY_CAP":
		return ExitMoney
	case "IDEMPOTENCY_KEY_REUSED":
		return ExitUsage
	case "CONTENT_NOT_READY":
		return ExitRetry
	}
	switch code {
	case codes.InvalidArgument, codes.OutOfRange:
		return ExitUsage
	case codes.NotFound:
		return ExitNotFound
	case codes.Unauthenticated, codes.PermissionDenied:
		return ExitCredential
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded:
		return ExitRetry
	case codes.Canceled:
		return ExitInterrupted
	}
	return ExitFailure
}

// interrupted reports whether the program was told to stop. The error of a call says only
// that it was cancelled, so the program's own context decides.
func interrupted(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled)
}
