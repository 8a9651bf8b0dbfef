package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

const (
	retryDelay    = time.Second
	detailsLimit  = 3 << 10 // maximum size of a BadRequest in bytes, so that trailers stay below 4 KiB
	violationText = 512     // maximum size in bytes of one violation's description
)

// rule defines the status for one kind of catalog error.
type rule struct {
	reason easelv1.ErrorReason
	text   string // message for the caller; it may contain advice
	retry  bool   // whether to add RetryInfo, because a retry may help
}

// rules maps each kind of catalog error to its status.
var rules = map[catalog.Kind]rule{
	catalog.KindInvalidInput:       {easelv1.ErrorReason_UPSTREAM_INVALID_INPUT, "the catalog rejects the input", false},
	catalog.KindCredentialRejected: {easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED, "the catalog rejects this API key: it is wrong or was revoked; send a valid API key", false},
	catalog.KindInsufficientFunds:  {easelv1.ErrorReason_INSUFFICIENT_BALANCE, "the balance does not cover the price; after a top-up, send the same idempotency_key again", false},
	catalog.KindForbidden:          {easelv1.ErrorReason_UPSTREAM_FORBIDDEN, "the catalog denies this request for this API key", false},
	catalog.KindNotFound:           {easelv1.ErrorReason_NOT_FOUND, "the catalog has no such record", false},
	catalog.KindPriceAboveLimit:    {easelv1.ErrorReason_PRICE_ABOVE_LIMIT, "price exceeds max_cost_cents", false},
	catalog.KindOrderExpired:       {easelv1.ErrorReason_ORDER_EXPIRED, "the order's expire_time has passed", false},
	catalog.KindDailyCap:           {easelv1.ErrorReason_API_KEY_DAILY_CAP, "the API key has reached its daily cap", false},
	catalog.KindKeyReused:          {easelv1.ErrorReason_IDEMPOTENCY_KEY_REUSED, "this idempotency_key was used for another order; to read that order, send its model and inputs", false},
	catalog.KindInProgress:         {easelv1.ErrorReason_SUBMISSION_IN_PROGRESS, "the catalog is still processing this idempotency_key; send it again", true},
	catalog.KindContentNotReady:    {easelv1.ErrorReason_CONTENT_NOT_READY, "the result is not available yet", true},
	catalog.KindNoContent:          {easelv1.ErrorReason_NO_CONTENT, "this render has no file", false},
	catalog.KindInputsTooLarge:     {easelv1.ErrorReason_INPUTS_TOO_LARGE, "the inputs exceed the catalog's limit", false},
	catalog.KindOutOfRange:         {easelv1.ErrorReason_READ_OFFSET_OUT_OF_RANGE, "read_offset is past the end of the result", false},
	catalog.KindRateLimited:        {easelv1.ErrorReason_UPSTREAM_RATE_LIMITED, "the catalog's rate limit is reached", true},
	catalog.KindBusy:               {easelv1.ErrorReason_OVERLOADED, "this server is overloaded and has sent no order; retry later", true},
	catalog.KindUnavailable:        {easelv1.ErrorReason_UPSTREAM_UNAVAILABLE, "the catalog does not respond", true},
	catalog.KindOutcomeUnknown:     {easelv1.ErrorReason_SUBMISSION_OUTCOME_UNKNOWN, "the order may exist; send the same idempotency_key again", true},
	catalog.KindRedirect:           {easelv1.ErrorReason_UPSTREAM_REDIRECT_REFUSED, "the catalog returned a redirect, which is not followed; check the base URL", false},
	catalog.KindContract:           {easelv1.ErrorReason_UPSTREAM_CONTRACT_MISMATCH, "the catalog's response does not match its specification; check the base URL", false},
	catalog.KindMalformed:          {easelv1.ErrorReason_UPSTREAM_MALFORMED_RESPONSE, "the catalog's response can't be read", false},
	catalog.KindInterrupted:        {easelv1.ErrorReason_CONTENT_INTERRUPTED, "the download was interrupted; continue from next_offset", true},
	catalog.KindContentChanged:     {easelv1.ErrorReason_CONTENT_CHANGED, "the file has changed since the first read; start again from 0", false},
}

// sharedKeyRejected is the message of the INTERNAL error that callers receive if the catalog rejects the shared API
// key. Only the operator can replace that key.
const sharedKeyRejected = "the catalog rejects this server's API key; the operator must replace it"

// Violation is one invalid field of a request, with its path, such as "inputs.prompt".
type Violation = catalog.Violation

// MostViolations is the maximum number of violations in an error.
const MostViolations = 10

// InvalidRequest returns the error for a request that violates the contract.
func InvalidRequest(violations ...Violation) error {
	text := "the request is not valid"
	if len(violations) > 0 {
		text = clip(strings.TrimPrefix(violations[0].Field+": ", ": ")+strings.TrimPrefix(violations[0].Description, ": "), 1<<10)
	}
	return Fail(easelv1.ErrorReason_INVALID_REQUEST, text, badRequest(violations))
}

func badRequest(violations []Violation) *errdetails.BadRequest {
	bad := &errdetails.BadRequest{}
	for _, v := range violations {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: v.Field, Description: clip(v.Description, violationText),
		})
	}
	return bad
}

// shorten removes violations from bad until at most MostViolations remain and the encoded message has at most
// detailsLimit bytes. If it removes any, it then adds a note that there are more.
func shorten(bad *errdetails.BadRequest) {
	all := len(bad.FieldViolations)
	bad.FieldViolations = bad.FieldViolations[:min(all, MostViolations)]
	for proto.Size(bad) > detailsLimit {
		bad.FieldViolations = bad.FieldViolations[:len(bad.FieldViolations)*3/4]
	}
	if len(bad.FieldViolations) < all {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Description: "there are more violations"})
	}
}

// clip shortens text to at most n bytes of valid UTF-8.
func clip(text string, n int) string {
	if len(text) > n {
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "")
}

// Status returns the status of an error for a caller that may see the account. For a nil error it returns nil, which
// means OK.
func Status(err error) *status.Status { return statusOf(err, true) }

// StatusFor returns the status of an error for the caller in ctx. If the caller may not see the account, the status
// omits the catalog's message about the balance, because that message may contain amounts.
func StatusFor(ctx context.Context, err error) *status.Status {
	return statusOf(err, auth.Of(ctx).SeesAccount)
}

// statusOf converts any error to a status.
func statusOf(err error, seesAccount bool) *status.Status {
	if err == nil {
		return nil
	}
	if order, ok := errors.AsType[*orders.Error](err); ok {
		return withOrderOutcome(ofReason(err, seesAccount), order.Outcome)
	}
	return ofReason(err, seesAccount)
}

// ofReason converts an error to a status. It does not add the outcome of an order. seesAccount reports whether the caller may see
// the catalog's message about an insufficient balance.
func ofReason(err error, seesAccount bool) *status.Status {
	if upstream, ok := errors.AsType[*catalog.Error](err); ok {
		return fromCatalog(upstream, err, seesAccount || !ofBalance(upstream))
	}
	if own, ok := errors.AsType[ownStatus](err); ok {
		return addReason(own.GRPCStatus())
	}
	if end, ok := errors.AsType[*closing](err); ok {
		return end.status()
	}
	if st := fromLedger(err); st != nil {
		return st
	}
	if denied, ok := errors.AsType[*auth.Error](err); ok {
		return notAuthenticated(denied)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return deadlinePassed()
	case errors.Is(err, context.Canceled):
		return NewStatus(easelv1.ErrorReason_CANCELLED, "the caller disconnected", nil)
	}
	return unforeseenStatus()
}

// notAuthenticated converts an authentication error to a status.
func notAuthenticated(denied *auth.Error) *status.Status {
	if denied.Delay == 0 {
		return NewStatus(denied.Reason, denied.Text, nil)
	}
	return NewStatus(denied.Reason, denied.Text, nil, &errdetails.RetryInfo{RetryDelay: durationpb.New(denied.Delay)})
}

// fromLedger returns the status of an error from the ledger, or of an error from package orders about the ledger's
// account or a team's models. For any other error, it returns nil. The database's own message is only logged.
func fromLedger(err error) *status.Status {
	if full, ok := errors.AsType[*ledger.BudgetError](err); ok {
		return budgetExceeded(full)
	}
	retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay)}
	if _, ok := errors.AsType[*ledger.Unavailable](err); ok {
		return NewStatus(easelv1.ErrorReason_LEDGER_UNAVAILABLE, "the ledger does not respond; retry later", nil, retry)
	}
	if _, ok := errors.AsType[*ledger.Busy](err); ok {
		return NewStatus(easelv1.ErrorReason_OVERLOADED, "the ledger is overloaded; retry later", nil, retry)
	}
	if _, ok := errors.AsType[*ledger.Doubt](err); ok {
		return NewStatus(easelv1.ErrorReason_LEDGER_UNAVAILABLE, "it is unknown whether the ledger has recorded this call; retry later", nil, retry)
	}
	if ledger.IsFault(err) {
		return NewStatus(easelv1.ErrorReason_INTERNAL, "the call contradicts the ledger; an operator must check the log", nil)
	}
	if errors.Is(err, orders.ErrAccountUnknown) {
		return NewStatus(easelv1.ErrorReason_UPSTREAM_UNAVAILABLE, "this server has not checked yet whether its API key belongs to its ledger's account; retry later", nil, retry)
	}
	if errors.Is(err, orders.ErrModelNotAllowed) {
		return NewStatus(easelv1.ErrorReason_MODEL_NOT_ALLOWED, "your team may not use this model; ask the operator of this server", nil)
	}
	return nil
}

// LedgerFailed reports whether an error comes from the ledger and needs an operator's attention.
func LedgerFailed(err error) bool {
	_, away := errors.AsType[*ledger.Unavailable](err)
	_, doubt := errors.AsType[*ledger.Doubt](err)
	return away || doubt || ledger.IsFault(err)
}

// budgetExceeded returns the status for an order that exceeds a budget. The status has no RetryInfo, because the next
// day or month is too far away for an automatic retry.
func budgetExceeded(e *ledger.BudgetError) *status.Status {
	text := fmt.Sprintf("the budget for this %s has %d cents left, and the order costs %d; wait until %s, or ask the operator for a larger budget", e.Period, e.RemainingCents, e.PriceCents, e.Reset.UTC().Format(time.RFC3339))
	subject, description := "team", "the team's budget for this "+e.Period
	metadata := map[string]string{
		"window":          e.Period,
		"reset_time":      e.Reset.UTC().Format(time.RFC3339),
		"remaining_cents": strconv.FormatInt(e.RemainingCents, 10),
		"price_cents":     strconv.FormatInt(e.PriceCents, 10),
	}
	if name, value, labeled := strings.Cut(e.Label, "="); labeled {
		text = fmt.Sprintf("the budget of the label %s=%q for this %s has %d cents left, and the order costs %d; wait until %s, or ask the operator for a larger budget", name, value, e.Period, e.RemainingCents, e.PriceCents, e.Reset.UTC().Format(time.RFC3339))
		subject, description = "label", "the budget of the label's value for this "+e.Period
		metadata["label_name"], metadata["label_value"] = name, value
	}
	if e.Total { // a team must not see how much is left of the budget that all teams share
		text = fmt.Sprintf("the budget of all teams for this %s is too small for the order, which costs %d cents; wait until %s, or ask the operator for a larger budget", e.Period, e.PriceCents, e.Reset.UTC().Format(time.RFC3339))
		subject, description = "total", "the budget of all teams for this "+e.Period
		delete(metadata, "remaining_cents")
	}
	return NewStatus(easelv1.ErrorReason_BUDGET_EXCEEDED, text, metadata, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
		Subject: subject, Description: description,
	}}})
}

// ownStatus is an error that already has a gRPC status.
type ownStatus interface {
	error
	GRPCStatus() *status.Status
}

// status returns the status that follows the closing message and ends the stream.
func (c *closing) status() *status.Status {
	reason := easelv1.ErrorReason_SERVER_DRAINING
	if c.reason == easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE {
		reason = easelv1.ErrorReason_STREAM_MAX_AGE
	}
	return NewStatus(reason, c.Error()+"; connect again", nil, &errdetails.RetryInfo{RetryDelay: durationpb.New(c.delay)})
}

// ofBalance reports whether an error contains the catalog's message about an insufficient balance.
func ofBalance(e *catalog.Error) bool {
	return e.Kind == catalog.KindInsufficientFunds || e.Withheld == catalog.KindInsufficientFunds
}

// upstreamCode matches the catalog's error codes that are passed on to callers. A value that does not match could be a
// message instead of a code.
var upstreamCode = regexp.MustCompile(`^[A-Z0-9_.-]{1,64}$`)

func fromCatalog(e *catalog.Error, err error, withMessage bool) *status.Status {
	r, ok := rules[e.Kind]
	if !ok {
		return unforeseenStatus()
	}
	metadata := map[string]string{}
	if e.Status != 0 {
		metadata["upstream_status"] = strconv.Itoa(e.Status)
	}
	if code := strings.ToUpper(e.Code); upstreamCode.MatchString(code) {
		metadata["upstream_code"] = code
	}
	details := kindDetails(e, metadata)
	if about, ok := errors.AsType[*aboutError](err); ok && e.Kind == catalog.KindNotFound {
		r.reason, r.text = about.reason, about.text
		details = append(details, &errdetails.ResourceInfo{ResourceType: about.resource, ResourceName: clip(about.name, 256)})
	}
	windowOver := errors.Is(e, orders.ErrResendWindow)
	if r.retry && !windowOver {
		delay := e.RetryAfter
		if delay == 0 {
			delay = retryDelay
		}
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	code, text := codesOf[r.reason], r.text
	switch {
	case e.IsOperatorFault():
		code, text = codes.Internal, sharedKeyRejected
	case e.Kind == catalog.KindPriceAboveLimit:
		text = fmt.Sprintf("price of %d cents exceeds max_cost_cents %d; raise the limit or choose another model", e.PriceCents, e.MaxCents)
	case e.Kind == catalog.KindOrderExpired:
		text += deadlineMessage(err)
	case windowOver:
		text = "the order may exist, and it is too late to resend it; " +
			"an operator must check the account before you order again"
	}
	if withMessage && e.Message != "" && !isRepetition(e, err) {
		text += ": " + e.Message
	}
	return newStatus(code, r.reason, text+remedyOf(e.Violations), metadata, details...)
}

// deadlineMessage returns the last part of the error message for an order whose deadline has passed. This part states whether
// the order was placed and may be charged.
func deadlineMessage(err error) string {
	order, _ := errors.AsType[*orders.Error](err)
	switch {
	case order == nil:
		return ""
	case order.Outcome == orders.NotPlaced:
		return "; nothing was ordered, and nothing is charged"
	case order.Outcome == orders.NotPlacedByThisCall:
		return "; this call ordered nothing, but an earlier call with this idempotency_key may have"
	}
	return "; the order may exist and be charged, so an operator must check the account before you order again"
}

// isRepetition reports whether the catalog's message would only repeat Easel's own message. This is the case if the API key is
// wrong, or if the requested record does not exist.
func isRepetition(e *catalog.Error, err error) bool {
	_, named := errors.AsType[*aboutError](err)
	return e.Kind == catalog.KindCredentialRejected || e.Kind == catalog.KindNotFound && named
}

// remedyOf returns advice about the fields that the catalog rejects. The advice mentions the method that lists the valid
// values. remedyOf returns "" if no method lists them.
func remedyOf(violations []Violation) (remedy string) {
	for _, v := range violations {
		switch {
		case v.Field == "model_id":
			return listModels // the model must be corrected first, because the valid inputs depend on it
		case v.Field == "inputs", strings.HasPrefix(v.Field, "inputs."):
			remedy = getModel
		}
	}
	return remedy
}

// kindDetails returns the status details for the kind of a catalog error. It also adds the entries for this kind to the
// ErrorInfo's metadata.
func kindDetails(e *catalog.Error, metadata map[string]string) []protoadapt.MessageV1 {
	switch e.Kind {
	case catalog.KindInvalidInput, catalog.KindInputsTooLarge:
		violations := slices.Clone(e.Violations)
		if len(violations) == 0 {
			violations = []Violation{{Field: "inputs"}}
		}
		for n, v := range violations {
			violations[n].Description = cmp.Or(v.Description, e.Message, rules[e.Kind].text)
		}
		return []protoadapt.MessageV1{badRequest(violations)}
	case catalog.KindInsufficientFunds:
		return []protoadapt.MessageV1{&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{
			Type: "BALANCE", Subject: "account", Description: "the balance does not cover the price",
		}}}}
	case catalog.KindDailyCap:
		return []protoadapt.MessageV1{&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: "api_key", Description: "the daily cap of the API key",
		}}}}
	case catalog.KindPriceAboveLimit:
		metadata["price_cents"], metadata["max_cost_cents"] = strconv.FormatInt(e.PriceCents, 10), strconv.FormatInt(e.MaxCents, 10)
	case catalog.KindInterrupted:
		metadata["next_offset"] = strconv.FormatInt(e.NextOffset, 10)
	}
	return nil
}

// aboutError is a catalog error about a requested record. reason and text are used in the status if the record does not
// exist.
type aboutError struct {
	err                  error
	reason               easelv1.ErrorReason
	text, resource, name string
}

func (e *aboutError) Error() string {
	return e.resource + " " + strconv.Quote(e.name) + ": " + e.err.Error()
}
func (e *aboutError) Unwrap() error { return e.err }

func aboutGeneration(err error, id string) error {
	const text = "render not found; check generation_id, and call with the credential of the team or API key that ordered the render"
	return &aboutError{err, easelv1.ErrorReason_GENERATION_NOT_FOUND, text, "easel.v1.Generation", id}
}

// Advice for an unknown model ID and for an invalid input.
const (
	listModels = "; ListModels returns the IDs"
	getModel   = "; GetModel lists the inputs"
)

func aboutModel(err error, id string) error {
	return &aboutError{err, easelv1.ErrorReason_MODEL_NOT_FOUND, "model not found" + listModels, "easel.v1.Model", id}
}

// noGeneration returns the error for a generation that does not exist in the catalog, or that the caller may not see.
func noGeneration(id string) error {
	return aboutGeneration(&catalog.Error{Kind: catalog.KindNotFound, Op: "watch"}, id)
}
