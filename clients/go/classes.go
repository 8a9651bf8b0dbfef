package easel

import (
	"encoding/json"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/code"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// base is an alias for Error, because an embedded field named Error would conflict with the method Error.
type base = Error

// Error classes. Each kind of error that you would handle differently has its own class. Each class embeds *Error, and
// errors.As finds both the class and the *Error.
type (
	// InvalidRequestError reports that the request is invalid. FieldViolations lists the invalid fields.
	InvalidRequestError struct{ *base }
	// UnauthenticatedError reports that the API key or token is missing or rejected.
	UnauthenticatedError struct{ *base }
	// PermissionDeniedError reports that the caller does not have permission for the call.
	PermissionDeniedError struct{ *base }
	// NotFoundError reports that the render or model does not exist, or that this caller may not see it.
	NotFoundError struct{ *base }
	// InsufficientBalanceError reports that the account's balance does not cover the price.
	InsufficientBalanceError struct{ *base }
	// PriceAboveLimitError reports that an order's price exceeds its MaxCostCents.
	PriceAboveLimitError struct{ *base }
	// BudgetExceededError reports that the budget of a team or of a label value does not cover the price. RemainingCents is the
	// amount left in the budget until ResetTime. For the budget of a label value, LabelName and LabelValue are set.
	BudgetExceededError struct{ *base }
	// OrderExpiredError reports that the time in Order.Expire has passed. If the error's OrderOutcome is OutcomeUnknown, an
	// earlier attempt may have placed the order.
	OrderExpiredError struct{ *base }
	// DailyCapReachedError reports that the API key has reached its daily cap in the catalog.
	DailyCapReachedError struct{ *base }
	// IdempotencyKeyReusedError reports that the idempotency key was already used for a different order.
	IdempotencyKeyReusedError struct{ *base }
	// OutcomeUnknownError reports that the order may exist. Send the order again with the same key.
	OutcomeUnknownError struct{ *base }
	// NotReadyError reports that the render is not finished, or that its result does not exist yet.
	NotReadyError struct{ *base }
	// NoContentError reports that the render has no file and never will have one.
	NoContentError struct{ *base }
	// ContentChangedError reports that the file has changed since its download started.
	ContentChangedError struct{ *base }
	// UnavailableError reports that Easel or the catalog is temporarily unavailable.
	UnavailableError struct{ *base }
	// ServerFaultError reports that the call failed for a problem that only the server's operator can fix.
	ServerFaultError struct{ *base }
	// DamagedError reports that downloaded bytes are damaged or missing.
	DamagedError struct{ *base }
	// TimeoutError reports that the call's deadline has passed. It wraps the last error before the deadline.
	TimeoutError struct {
		*base
		Heartbeat *Heartbeat // last heartbeat of a watch; nil if no heartbeat arrived
	}
	// StoppedError reports that the call's context was canceled. It wraps the last error before the cancellation.
	StoppedError struct{ *base }
	// RenderFailedError reports that the render is finished but did not succeed.
	RenderFailedError struct {
		*base
		Render *Render
	}
)

// remedy is a row of the error table. Class is the name of the error class. Again states whether a retry may help: "yes", "no",
// or "if_told" if it may help only after a delay that the server has requested.
type remedy struct{ Class, Again string }

// errorTable is the content of clients/reasons.json.
type errorTable struct {
	Reasons, Codes map[string]remedy
	WatchEnds      []string `json:"watch_ends"` // gRPC codes of the errors that end a watch
}

var remedies = sync.OnceValue(func() (table errorTable) {
	_ = json.Unmarshal([]byte(easelv1.Reasons), &table) // cannot fail, because a test parses this constant
	return table
})

// remedy returns the remedy for the error's reason, or for its code if the reason is empty or unknown.
func (e *Error) remedy() remedy {
	if found, ok := remedies().Reasons[e.Reason]; ok {
		return found
	}
	return remedies().Codes[code.Code(e.Code).String()]
}

// wrapInClass returns e, wrapped in the error type of its class.
func wrapInClass(e *Error) error {
	switch e.remedy().Class {
	case "InvalidRequest":
		return &InvalidRequestError{e}
	case "Unauthenticated":
		return &UnauthenticatedError{e}
	case "PermissionDenied":
		return &PermissionDeniedError{e}
	case "NotFound":
		return &NotFoundError{e}
	case "InsufficientBalance":
		return &InsufficientBalanceError{e}
	case "PriceAboveLimit":
		return &PriceAboveLimitError{e}
	case "BudgetExceeded":
		return &BudgetExceededError{e}
	case "OrderExpired":
		return &OrderExpiredError{e}
	case "DailyCapReached":
		return &DailyCapReachedError{e}
	case "IdempotencyKeyReused":
		return &IdempotencyKeyReusedError{e}
	case "OutcomeUnknown":
		return &OutcomeUnknownError{e}
	case "NotReady":
		return &NotReadyError{e}
	case "NoContent":
		return &NoContentError{e}
	case "ContentChanged":
		return &ContentChangedError{e}
	case "Damaged":
		return &DamagedError{e}
	case "Unavailable":
		return &UnavailableError{e}
	}
	return &ServerFaultError{e}
}
