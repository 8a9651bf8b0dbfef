package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

const (
	domain        = "easel" // of every ErrorInfo
	retryDelay    = time.Second
	detailsLimit  = 3 << 10 // bytes of all details, so that trailers stay below 4 KiB
	violationText = 512     // bytes of one description
)

// rule is the status of one kind of catalog error. The text tells the caller what to do.
type rule struct {
	code   codes.Code
	reason string
	text   string
	retry  bool // RetryInfo: trying again may help
}

// rules is the one map from the kinds of the catalog's errors to statuses.
var rules = map[catalog.Kind]rule{
	catalog.KindInvalidInput:       {codes.InvalidArgument, "UPSTREAM_INVALID_INPUT", "the catalog refuses the input", false},
	catalog.KindCredentialRejected: {codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED", "the catalog rejects this API key: it is wrong or was revoked", false},
	catalog.KindInsufficientFunds:  {codes.FailedPrecondition, "INSUFFICIENT_BALANCE", "the balance does not cover the price; after a top-up send the same idempotency_key again", false},
	catalog.KindForbidden:          {codes.PermissionDenied, "UPSTREAM_FORBIDDEN", "the catalog does not allow this with this API key", false},
	catalog.KindNotFound:           {codes.NotFound, "NOT_FOUND", "the catalog has no such record", false},
	catalog.KindPriceAboveLimit:    {codes.FailedPrecondition, "PRICE_ABOVE_LIMIT", "the price is above max_cost_cents: this call has sent no order", false},
	catalog.KindDailyCap:           {codes.ResourceExhausted, "API_KEY_DAILY_CAP", "the API key has reached its daily cap", false},
	catalog.KindKeyReused:          {codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED", "this idempotency_key stands for another order: its own model and inputs, sent with it, tell of it", false},
	catalog.KindInProgress:         {codes.Aborted, "SUBMISSION_IN_PROGRESS", "the catalog is still busy with this idempotency_key; send it again", true},
	catalog.KindContentNotReady:    {codes.FailedPrecondition, "CONTENT_NOT_READY", "the result is not there yet", true},
	catalog.KindNoContent:          {codes.FailedPrecondition, "NO_CONTENT", "this render has no file", false},
	catalog.KindInputsTooLarge:     {codes.InvalidArgument, "INPUTS_TOO_LARGE", "the inputs are larger than the catalog takes", false},
	catalog.KindOutOfRange:         {codes.OutOfRange, "READ_OFFSET_OUT_OF_RANGE", "read_offset lies past the end of the result", false},
	catalog.KindRateLimited:        {codes.ResourceExhausted, "UPSTREAM_RATE_LIMITED", "the catalog asks to slow down", true},
	catalog.KindBusy:               {codes.ResourceExhausted, "OVERLOADED", "this server has no room for it now, and has sent nothing: try again a little later", true},
	catalog.KindUnavailable:        {codes.Unavailable, "UPSTREAM_UNAVAILABLE", "the catalog does not answer", true},
	catalog.KindOutcomeUnknown:     {codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", "it is not known whether the order was taken: send the same idempotency_key again", true},
	catalog.KindRedirect:           {codes.Internal, "UPSTREAM_REDIRECT_REFUSED", "the catalog answered with a redirect, which is never followed: check the base URL", false},
	catalog.KindContract:           {codes.Internal, "UPSTREAM_CONTRACT_MISMATCH", "the catalog answered with something its specification has no room for: check the base URL", false},
	catalog.KindMalformed:          {codes.Internal, "UPSTREAM_MALFORMED_RESPONSE", "the catalog's answer can't be read", false},
	catalog.KindInterrupted:        {codes.Unavailable, "CONTENT_INTERRUPTED", "the result broke off; go on from next_offset", true},
	catalog.KindContentChanged:     {codes.DataLoss, "CONTENT_CHANGED", "the bytes are not those that were begun with; start again from 0", false},
}

// heldRejected is the status of a 401 to the held API key, which the operator must mend.
var heldRejected = rule{codes.Internal, "UPSTREAM_CREDENTIAL_REJECTED", "the catalog rejects the API key that this server holds: its operator must act", false}

// Violation names one broken rule of a request.
type Violation struct {
	Field       string // path in the request, as "inputs.prompt"
	Description string
}

// InvalidRequest is the error of a request that breaks rules of the contract.
func InvalidRequest(violations ...Violation) error {
	bad := &errdetails.BadRequest{}
	for _, v := range violations {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: v.Field, Description: clip(v.Description, violationText),
		})
	}
	text := "the request is not valid"
	if len(violations) > 0 {
		text = clip(strings.TrimPrefix(violations[0].Field+": ", ": ")+strings.TrimPrefix(violations[0].Description, ": "), 1<<10)
	}
	return Fail(codes.InvalidArgument, "INVALID_REQUEST", text, bad)
}

// Fail makes an error of our own: a status with ErrorInfo and details.
func Fail(code codes.Code, reason, text string, details ...protoadapt.MessageV1) error {
	return NewStatus(code, text, &errdetails.ErrorInfo{Reason: reason}, details...).Err()
}

// NewStatus makes a status that is small enough for trailers.
func NewStatus(code codes.Code, text string, info *errdetails.ErrorInfo, details ...protoadapt.MessageV1) *status.Status {
	for _, d := range details {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			shorten(bad)
		}
	}
	info.Domain = domain
	st := status.New(code, clip(text, 1<<10))
	full, err := st.WithDetails(append([]protoadapt.MessageV1{info}, details...)...)
	if err != nil {
		return st // only for code OK, which no caller passes
	}
	return full
}

// shorten leaves out the violations that do not fit into trailers, and says so.
func shorten(bad *errdetails.BadRequest) {
	all := len(bad.FieldViolations)
	for proto.Size(bad) > detailsLimit {
		bad.FieldViolations = bad.FieldViolations[:len(bad.FieldViolations)*3/4]
	}
	if left := all - len(bad.FieldViolations); left > 0 {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Description: strconv.Itoa(left) + " more violations",
		})
	}
}

// clip shortens text to at most n bytes of valid UTF-8.
func clip(text string, n int) string {
	if len(text) > n {
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "")
}

// Status is the one place where an error becomes a status. It is nil, which means OK, where there is no
// error.
func Status(err error) *status.Status {
	if err == nil {
		return nil
	}
	if order, ok := errors.AsType[*orderError](err); ok {
		return withOrderOutcome(Status(order.err), order.outcome)
	}
	if upstream, ok := errors.AsType[*catalog.Error](err); ok {
		return fromCatalog(upstream, err)
	}
	if own, ok := errors.AsType[ownStatus](err); ok {
		return reasoned(own.GRPCStatus())
	}
	if end, ok := errors.AsType[*closing](err); ok {
		return end.status()
	}
	if st := fromLedger(err); st != nil {
		return st
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return NewStatus(codes.DeadlineExceeded, "the caller's deadline has passed", &errdetails.ErrorInfo{Reason: "DEADLINE_EXCEEDED"})
	case errors.Is(err, context.Canceled):
		return NewStatus(codes.Canceled, "the caller went away", &errdetails.ErrorInfo{Reason: "CANCELLED"})
	}
	// The text of an unforeseen error is for the log, not for the caller.
	return NewStatus(codes.Internal, "internal error", &errdetails.ErrorInfo{Reason: "INTERNAL"})
}

// fromLedger is the status of an error of the ledger, or nil. The database's own words are for the log.
func fromLedger(err error) *status.Status {
	if full, ok := errors.AsType[*ledger.BudgetError](err); ok {
		return budgetExceeded(full)
	}
	retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay)}
	if _, ok := errors.AsType[*ledger.Unavailable](err); ok {
		return NewStatus(codes.Unavailable, "the ledger does not answer: try again", &errdetails.ErrorInfo{Reason: "LEDGER_UNAVAILABLE"}, retry)
	}
	if _, ok := errors.AsType[*ledger.Doubt](err); ok || errors.Is(err, ledger.ErrGenerationTaken) {
		unknown := rules[catalog.KindOutcomeUnknown]
		return NewStatus(unknown.code, unknown.text, &errdetails.ErrorInfo{Reason: unknown.reason}, retry)
	}
	if errors.Is(err, orders.ErrModelNotAllowed) {
		return NewStatus(codes.PermissionDenied, "this server does not let your team order from this model", &errdetails.ErrorInfo{Reason: "MODEL_NOT_ALLOWED"})
	}
	return nil
}

// LedgerFailed reports whether an error is of the ledger, and somebody has to look what it says.
func LedgerFailed(err error) bool {
	_, away := errors.AsType[*ledger.Unavailable](err)
	_, doubt := errors.AsType[*ledger.Doubt](err)
	return away || doubt || errors.Is(err, ledger.ErrGenerationTaken)
}

// budgetExceeded is the status of an order that a budget has no room for. Trying again helps when the next
// window begins, which is too far for a RetryInfo.
func budgetExceeded(e *ledger.BudgetError) *status.Status {
	text := fmt.Sprintf("the budget of this %s has %d cents left, and the order costs %d", e.Period, e.RemainingCents, e.PriceCents)
	info := &errdetails.ErrorInfo{Reason: "BUDGET_EXCEEDED", Metadata: map[string]string{
		"window":          e.Period,
		"reset_time":      e.Reset.UTC().Format(time.RFC3339),
		"remaining_cents": strconv.FormatInt(e.RemainingCents, 10),
		"price_cents":     strconv.FormatInt(e.PriceCents, 10),
	}}
	return NewStatus(codes.ResourceExhausted, text, info, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
		Subject: "team", Description: "the team's budget of this " + e.Period,
	}}})
}

// errNoLedger is the error of a request for what only a ledger knows.
func errNoLedger(what string) error {
	return Fail(codes.FailedPrecondition, "LEDGER_NOT_CONFIGURED", what+" need a ledger, and this server has none: its operator sets EASEL_LEDGER_URL")
}

// ownStatus is an error that has a status.
type ownStatus interface {
	error
	GRPCStatus() *status.Status
}

// reasoned is a status with a reason. A refusal by a library has none yet: it gets the name of its
// code.
func reasoned(st *status.Status) *status.Status {
	if st.Code() == codes.OK || Reason(st) != "" {
		return st
	}
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Domain: domain, Reason: code.Code(st.Code()).String()})
	if err != nil { // only for code OK
		return st
	}
	return detailed
}

// Reason is the reason that a status gives, or "".
func Reason(st *status.Status) string { return Detail[*errdetails.ErrorInfo](st).GetReason() }

// Detail is the detail of type M of a status, or nil.
func Detail[M proto.Message](st *status.Status) (found M) {
	for _, any := range st.Details() {
		if m, ok := any.(M); ok {
			return m
		}
	}
	return found
}

// status is the status after the closing message.
func (c *closing) status() *status.Status {
	info := &errdetails.ErrorInfo{Reason: "SERVER_DRAINING"}
	if c.reason == easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE {
		info.Reason = "STREAM_MAX_AGE"
	}
	return NewStatus(codes.Unavailable, c.Error()+": connect again", info, &errdetails.RetryInfo{RetryDelay: durationpb.New(c.delay)})
}

func fromCatalog(e *catalog.Error, err error) *status.Status {
	r, ok := rules[e.Kind]
	if !ok {
		r = rule{codes.Internal, "INTERNAL", "internal error", false}
	}
	if e.Kind == catalog.KindCredentialRejected && e.Held {
		r = heldRejected
	}
	info := &errdetails.ErrorInfo{Reason: r.reason, Metadata: map[string]string{}}
	if e.Status != 0 {
		info.Metadata["upstream_status"] = strconv.Itoa(e.Status)
	}
	details := kindDetails(e, info)
	if about, ok := errors.AsType[*aboutError](err); ok && e.Kind == catalog.KindNotFound {
		info.Reason = about.reason
		details = append(details, &errdetails.ResourceInfo{ResourceType: about.resource, ResourceName: clip(about.name, 256)})
	}
	windowOver := errors.Is(e, catalog.ErrResendWindow)
	if r.retry && !windowOver {
		delay := e.RetryAfter
		if delay == 0 {
			delay = retryDelay
		}
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	text := r.text
	switch {
	case windowOver:
		text = "it is not known whether the order was taken, and it is too late to send it again: " +
			"an operator must look at the account; do not order again before that"
	case e.Kind == catalog.KindOutcomeUnknown && e.Unsent:
		text = "the catalog could not be reached, and this call has sent no order: send the same idempotency_key again"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return NewStatus(r.code, text, info, details...)
}

// kindDetails are the details that only one kind has.
func kindDetails(e *catalog.Error, info *errdetails.ErrorInfo) []protoadapt.MessageV1 {
	switch e.Kind {
	case catalog.KindInvalidInput, catalog.KindInputsTooLarge:
		return []protoadapt.MessageV1{badRequest(e)}
	case catalog.KindInsufficientFunds:
		return []protoadapt.MessageV1{&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{
			Type: "BALANCE", Subject: "account", Description: "the balance does not cover the price",
		}}}}
	case catalog.KindDailyCap:
		return []protoadapt.MessageV1{&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: "api_key", Description: "the daily cap of the API key",
		}}}}
	case catalog.KindPriceAboveLimit:
		info.Metadata["price_cents"] = strconv.FormatInt(e.PriceCents, 10)
	case catalog.KindInterrupted:
		info.Metadata["next_offset"] = strconv.FormatInt(e.NextOffset, 10)
	}
	return nil
}

func badRequest(e *catalog.Error) *errdetails.BadRequest {
	bad := &errdetails.BadRequest{}
	for _, v := range e.Violations {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: clip(v.Field, 256), Description: clip(v.Description, violationText),
		})
	}
	if len(bad.FieldViolations) == 0 {
		bad.FieldViolations = []*errdetails.BadRequest_FieldViolation{{Field: "inputs", Description: clip(e.Message, violationText)}}
	}
	return bad
}

// aboutError says which record an upstream error is about.
type aboutError struct {
	err                    error
	reason, resource, name string
}

func (e *aboutError) Error() string {
	return e.resource + " " + strconv.Quote(e.name) + ": " + e.err.Error()
}
func (e *aboutError) Unwrap() error { return e.err }

func aboutGeneration(err error, id string) error {
	return &aboutError{err, "GENERATION_NOT_FOUND", "easel.v1.Generation", id}
}

func aboutModel(err error, id string) error {
	return &aboutError{err, "MODEL_NOT_FOUND", "easel.v1.Model", id}
}

// noGeneration is the error for a generation that the catalog does not know.
func noGeneration(id string) error {
	return aboutGeneration(&catalog.Error{Kind: catalog.KindNotFound, Op: "watch"}, id)
}
