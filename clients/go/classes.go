package easel

import (
	"encoding/json"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/code"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// base is an alias for Error, because an embedded field named Error would conflict with the method Error.
type base = Error

// Error classes, one for each way to handle an error. Each class embeds *Error. errors.As finds both the class and the *Error.
type (
	// InvalidRequestError reports an invalid request. FieldViolations names the invalid fields.
	InvalidRequestError struct{ *base }
	// UnauthenticatedError reports a missing or wrong API key or token.
	UnauthenticatedError struct{ *base }
	// PermissionDeniedError reports a call that this caller may not make.
	PermissionDeniedError struct{ *base }
	// NotFoundError reports a render or model that does not exist.
	NotFoundError struct{ *base }
	// InsufficientBalanceError reports that the account's balance does not cover the price.
	InsufficientBalanceError struct{ *base }
	// PriceAboveLimitError reports that an order's price exceeds its MaxCostCents.
	PriceAboveLimitError struct{ *base }
	// BudgetExceededError reports that the budget of a team or of a label value does not cover the price. Until ResetTime, the
	// budget allows RemainingCents. If it is the budget of a label value, LabelName and LabelValue are set.
	BudgetExceededError struct{ *base }
	// OrderExpiredError reports that an order's Expire has passed. If its OrderOutcome is OutcomeUnknown, the order may exist.
	OrderExpiredError struct{ *base }
	// DailyCapReachedError reports that the API key has reached its daily cap.
	DailyCapReachedError struct{ *base }
	// IdempotencyKeyReusedError reports an idempotency key that belongs to another order.
	IdempotencyKeyReusedError struct{ *base }
	// OutcomeUnknownError reports an order that may or may not exist. Send it again with the same key.
	OutcomeUnknownError struct{ *base }
	// NotReadyError reports a render that is not finished.
	NotReadyError struct{ *base }
	// NoContentError reports a render that has no file and never will.
	NoContentError struct{ *base }
	// ContentChangedError reports that the file has changed since its download started.
	ContentChangedError struct{ *base }
	// UnavailableError reports a temporary failure.
	UnavailableError struct{ *base }
	// ServerFaultError reports a failure that only the server's operator can fix.
	ServerFaultError struct{ *base }
	// DamagedError reports that bytes of a download are damaged or missing.
	DamagedError struct{ *base }
	// TimeoutError reports that the call's deadline has passed. It contains the last error before the deadline.
	TimeoutError struct {
		*base
		Heartbeat *Heartbeat // last heartbeat of a watch; nil if no heartbeat arrived
	}
	// StoppedError reports a canceled context. It contains the last error before the cancellation.
	StoppedError struct{ *base }
	// RenderFailedError reports a render that ended without a result.
	RenderFailedError struct {
		*base
		Render *Render
	}
)

// remedy is a row of the error table. Class is the name of the error's class. Again is yes if a retry may help, no if it can't,
// and if_told if it may help only when the server requested a delay.
type remedy struct{ Class, Again string }

// errorTable is the content of clients/reasons.json.
type errorTable struct {
	Reasons, Codes map[string]remedy
	WatchEnds      []string `json:"watch_ends"` // gRPC codes that end a watch
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

// classed wraps e in the error type for its class.
func classed(e *Error) error {
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
