package easel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Outcome states whether the order of a failed call exists. See CreateGeneration in the contract for the exact rules.
type Outcome string

// The outcomes.
const (
	OutcomeUnknown             Outcome = "unknown"                 // the order may exist; send it again with the same key
	OutcomeNotPlacedByThisCall Outcome = "not_placed_by_this_call" // this call placed no order, but an earlier call with the same key may have placed one
	OutcomeNotPlaced           Outcome = "not_placed"              // no order with this key exists
)

// Error contains the details that all error types of this package share. Each type, such as BudgetExceededError, embeds an
// *Error that errors.As finds. status.FromError returns the gRPC status of the error.
type Error struct {
	Code            codes.Code
	Reason          string // name of an ErrorReason in the contract; empty if the error is not from Easel
	Message         string
	OrderOutcome    Outcome       // outcome of an order over all its attempts; empty for calls that are not orders
	IdempotencyKey  string        // idempotency key of an order
	GenerationID    string        // ID of the render; empty if unknown
	RetryAfter      time.Duration // delay that the server requests before a retry; zero if it requests none
	ResetTime       time.Time     // time when the exceeded budget is reset; zero for other errors
	RemainingCents  *int64        // remaining amount of the exceeded budget; nil for other errors
	LabelName       string        // name of the label whose budget is exceeded; empty for other budgets and errors
	LabelValue      string        // value of this label
	FieldViolations []FieldViolation
	Resource        string            // ID of the render or model that was not found; empty for other errors
	RequestID       string            // ID of the call in the server's log
	Metadata        map[string]string // metadata of google.rpc.ErrorInfo

	below []error
}

// FieldViolation names an invalid field of the request, and describes the problem.
type FieldViolation struct{ Field, Description string }

// Error returns the message with the reason and the invalid fields. For an order, it adds the idempotency key and either the
// ID of the render or, if the ID is unknown, the outcome.
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
		text += fmt.Sprintf("; the order exists as %s, idempotency key %s", e.GenerationID, e.IdempotencyKey)
	case e.IdempotencyKey != "":
		text += fmt.Sprintf("; order outcome %s, idempotency key %s", e.OrderOutcome, e.IdempotencyKey)
	}
	return text
}

// Unwrap returns the underlying error, if any. If the call's context was done, Unwrap also returns the context's cause.
func (e *Error) Unwrap() []error { return e.below }

// As sets *target to e if target is a **Error. errors.As calls this method.
func (e *Error) As(target any) bool {
	base, ok := target.(**Error)
	if ok {
		*base = e
	}
	return ok
}

// GRPCStatus returns the gRPC status of the underlying error. If the underlying error has no status, it returns a status with
// the code and the message.
func (e *Error) GRPCStatus() *status.Status {
	for _, err := range e.below {
		if s, ok := status.FromError(err); ok {
			return s
		}
	}
	return status.New(e.Code, e.Message)
}

// ReasonOf returns the reason of an error, or "" if the error is not from Easel.
func ReasonOf(err error) string { return baseOf(err).Reason }

// IsRetryable reports whether a retry of the call may succeed. This depends on the error's reason, or on its code if the reason
// is empty or unknown. If the call's context was canceled or the call timed out, IsRetryable returns false.
func IsRetryable(err error) bool {
	if errors.As(err, new(*StoppedError)) || errors.As(err, new(*TimeoutError)) {
		return false
	}
	e := baseOf(err)
	again := e.remedy().Again
	return again == "yes" || again == "if_told" && e.RetryAfter > 0
}

// toTypedError converts a gRPC error to the error type for its reason. It returns all other errors unchanged.
func (c *Client) toTypedError(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok || errors.As(err, new(*Error)) {
		return err
	}
	e := &Error{Code: s.Code(), Message: simplifyMessage(s.Message(), c.hostPort()), below: []error{err}}
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
	return wrapInClass(e)
}

// hostPort returns the server's host and port.
func (c *Client) hostPort() string {
	_, address, _ := strings.Cut(c.conn.Target(), ":///")
	return address
}

// simplifyMessage returns a clearer message if text, the message of a gRPC status, reports a failed connection to address.
// Otherwise, it returns text unchanged.
func simplifyMessage(text, address string) string {
	_, failure, isFailed := strings.Cut(text, "connection error: desc = ")
	if unquoted, err := strconv.Unquote(failure); err == nil {
		failure = strings.TrimPrefix(strings.TrimPrefix(unquoted, "transport: "), "Error while dialing: ")
	}
	switch {
	case strings.Contains(text, "no children to pick from"): // grpc-go's message for a host name without addresses
		host, _, _ := net.SplitHostPort(address)
		return host + " does not resolve"
	case strings.HasPrefix(text, "context deadline exceeded while waiting for connections"),
		strings.HasPrefix(failure, "error reading server preface") && strings.HasSuffix(failure, net.ErrClosed.Error()), // grpc-go's message after it closed a connection on which the server sent nothing
		failure == "authentication handshake failed: context deadline exceeded":
		return address + " does not respond"
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "server does not speak TLS; use http:// in the address"
	case strings.Contains(text, "looked like an HTTP/1.1 header"):
		return "server speaks HTTP/1.1 and not gRPC; use the gRPC address of Easel"
	case strings.Contains(text, "error reading server preface"):
		return "server closed the connection at its start; use https:// in the address if it speaks TLS"
	case isFailed:
		return "connection to " + address + " failed: " + failure
	}
	return text
}

func (e *Error) readInfo(info *errdetails.ErrorInfo) {
	e.Reason, e.Metadata = info.GetReason(), info.GetMetadata()
	e.OrderOutcome = Outcome(e.Metadata["order_outcome"])
	e.ResetTime, _ = time.Parse(time.RFC3339, e.Metadata["reset_time"])
	e.LabelName, e.LabelValue = e.Metadata["label_name"], e.Metadata["label_value"]
	if cents, err := strconv.ParseInt(e.Metadata["remaining_cents"], 10, 64); err == nil {
		e.RemainingCents = &cents
	}
}

// baseOf returns the *Error in err, or an empty *Error if err contains no *Error.
func baseOf(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	return &Error{}
}

// setOrder sets the generation ID and the idempotency key of an error.
func setOrder(err error, generationID, key string) {
	e := baseOf(err)
	e.GenerationID, e.IdempotencyKey = generationID, key
}

// contextError returns the error for a call whose context is done. lastErr is the call's last error before the context was
// done.
func contextError(ctx context.Context, lastErr error, lastHeartbeat *Heartbeat) error {
	e, cause := *baseOf(lastErr), context.Cause(ctx)
	e.below = []error{lastErr, cause}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Message = cause.Error() + "; last error: " + e.Message
		return &StoppedError{&e}
	}
	e.Message = "timed out; last error: " + e.Message
	if lastHeartbeat != nil && lastHeartbeat.Condition != "HEALTHY" {
		e.Message += "; last heartbeat: " + strings.TrimSuffix(lastHeartbeat.Condition+": "+lastHeartbeat.LastError, ": ")
	}
	return &TimeoutError{&e, lastHeartbeat}
}
