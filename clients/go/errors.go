package easel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Outcome is what is known of an order that has failed: see CreateGeneration in the contract.
type Outcome string

// The outcomes.
const (
	OutcomeUnknown             Outcome = "unknown"                 // it may exist: send the same order again
	OutcomeNotPlacedByThisCall Outcome = "not_placed_by_this_call" // an earlier call with its key may have placed it
	OutcomeNotPlaced           Outcome = "not_placed"
)

// Error is the base of every error of a call: errors.As finds it in each of the classes beside it, such as
// BudgetExceededError. It is a gRPC status, too.
type Error struct {
	Code            codes.Code
	Reason          string // of the contract's ErrorReason, "" where the error is not of Easel
	Message         string
	OrderOutcome    Outcome // of an order, over all of its attempts; else ""
	IdempotencyKey  string  // of an order
	GenerationID    string  // of the render that was watched
	RetryAfter      time.Duration
	ResetTime       time.Time // when a budget begins anew
	RemainingCents  *int64    // of a budget
	FieldViolations []FieldViolation
	Resource        string // what was not found
	RequestID       string
	Metadata        map[string]string // of google.rpc.ErrorInfo

	below []error
}

// FieldViolation is a field of the request that is wrong, and why.
type FieldViolation struct{ Field, Description string }

// Error is the message with its reason, and what is known of an order.
func (e *Error) Error() string {
	text := e.Message
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	for _, field := range e.FieldViolations {
		text += "; " + field.Field + ": " + field.Description
	}
	switch {
	case e.IdempotencyKey != "" && e.GenerationID != "":
		text += fmt.Sprintf("; the order stands as %s, idempotency key %s", e.GenerationID, e.IdempotencyKey)
	case e.IdempotencyKey != "":
		text += fmt.Sprintf("; order outcome %s, idempotency key %s", e.OrderOutcome, e.IdempotencyKey)
	}
	return text
}

// Unwrap gives what lies below: the error of gRPC, and that of the context.
func (e *Error) Unwrap() []error { return e.below }

// As finds the base in a class.
func (e *Error) As(target any) bool {
	base, ok := target.(**Error)
	if ok {
		*base = e
	}
	return ok
}

// GRPCStatus is the status of the server's answer.
func (e *Error) GRPCStatus() *status.Status {
	for _, err := range e.below {
		if s, ok := status.FromError(err); ok {
			return s
		}
	}
	return status.New(e.Code, e.Message)
}

// ReasonOf says why a call has failed: "" where the error is not of Easel.
func ReasonOf(err error) string { return baseOf(err).Reason }

// IsRetryable reports whether the same call again may mend an error. A reason outranks its code, and the end of the
// caller's own context outranks both.
func IsRetryable(err error) bool {
	if errors.As(err, new(*StoppedError)) || errors.As(err, new(*TimeoutError)) {
		return false
	}
	e := baseOf(err)
	again := e.remedy().Again
	return again == "yes" || again == "if_told" && e.RetryAfter > 0
}

// typed makes an error of its class of what gRPC gives. Errors from elsewhere stay as they are.
func typed(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok || errors.As(err, new(*Error)) {
		return err
	}
	e := &Error{Code: s.Code(), Message: plain(s.Message()), below: []error{err}}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == "easel" {
				e.readInfo(d)
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = max(d.GetRetryDelay().AsDuration(), 0)
		case *errdetails.ResourceInfo:
			e.Resource = d.GetResourceName()
		case *errdetails.RequestInfo:
			e.RequestID = d.GetRequestId()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.FieldViolations = append(e.FieldViolations, FieldViolation{v.GetField(), v.GetDescription()})
			}
		}
	}
	return classed(e)
}

// plain returns the message of a status, and a message with a remedy if the port speaks another protocol than the client.
func plain(text string) string {
	switch {
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "server does not speak TLS; use http:// in the address"
	case strings.Contains(text, "looked like an HTTP/1.1 header"):
		return "server speaks HTTP/1.1 and not gRPC; use the gRPC address of Easel"
	case strings.Contains(text, "error reading server preface"):
		return "server closed the connection at its start; use https:// in the address if it speaks TLS"
	}
	return text
}

func (e *Error) readInfo(info *errdetails.ErrorInfo) {
	e.Reason, e.Metadata = info.GetReason(), info.GetMetadata()
	e.OrderOutcome = Outcome(e.Metadata["order_outcome"])
	e.ResetTime, _ = time.Parse(time.RFC3339, e.Metadata["reset_time"])
	if cents, err := strconv.ParseInt(e.Metadata["remaining_cents"], 10, 64); err == nil {
		e.RemainingCents = &cents
	}
}

// baseOf is the base of an error, and an empty one where it has none.
func baseOf(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	return &Error{}
}

// named puts into an error which render or order it is of.
func named(err error, generationID, key string) {
	e := baseOf(err)
	e.GenerationID, e.IdempotencyKey = generationID, key
}

// ended is the error of a call whose context has ended after another error.
func ended(ctx context.Context, after error, last *Heartbeat) error {
	e, cause := *baseOf(after), context.Cause(ctx)
	e.below = []error{after, cause}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Message = cause.Error() + ", after: " + e.Message
		return &StoppedError{&e}
	}
	e.Message = "the time ran out: " + e.Message
	if last != nil && last.Condition != "HEALTHY" {
		e.Message += "; the last heartbeat says " + strings.TrimSuffix(last.Condition+": "+last.LastError, ": ")
	}
	return &TimeoutError{&e, last}
}
