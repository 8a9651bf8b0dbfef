package easel

import (
	"encoding/json"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/code"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// base is Error under a name that leaves room for its method.
type base = Error

// The classes of errors, by what a program does about them. Each has the base, and errors.As finds both.
type (
	// InvalidRequestError is of a request to mend: FieldViolations says where.
	InvalidRequestError struct{ *base }
	// UnauthenticatedError is of an API key or token that is missing or wrong.
	UnauthenticatedError struct{ *base }
	// PermissionDeniedError is of what this caller may not do.
	PermissionDeniedError struct{ *base }
	// NotFoundError is of a render or model that there is not.
	NotFoundError struct{ *base }
	// InsufficientBalanceError is of an account with less than the price.
	InsufficientBalanceError struct{ *base }
	// PriceAboveLimitError is of an order that costs more than its MaxCostCents.
	PriceAboveLimitError struct{ *base }
	// BudgetExceededError is of a team's budget: RemainingCents is left, until ResetTime.
	BudgetExceededError struct{ *base }
	// DailyCapReachedError is of an API key that has spent what it may today.
	DailyCapReachedError struct{ *base }
	// IdempotencyKeyReusedError is of a key that stands for another order.
	IdempotencyKeyReusedError struct{ *base }
	// OutcomeUnknownError is of an order that may exist: send it again with the same key.
	OutcomeUnknownError struct{ *base }
	// NotReadyError is of a render that is not finished.
	NotReadyError struct{ *base }
	// NoContentError is of a render that has no file and will have none.
	NoContentError struct{ *base }
	// ContentChangedError is of a file that is another one since its download began.
	ContentChangedError struct{ *base }
	// UnavailableError is of what may work a little later.
	UnavailableError struct{ *base }
	// ServerFaultError is of a server that its operator has to mend.
	ServerFaultError struct{ *base }
	// DamagedError is of bytes that arrived damaged.
	DamagedError struct{ *base }
	// TimeoutError is of a context whose deadline came first. The base has the last error before it.
	TimeoutError struct {
		*base
		Heartbeat *Heartbeat // the last one of a watch, nil where there was none
	}
	// StoppedError is of a context that somebody has cancelled. The base has the last error before it.
	StoppedError struct{ *base }
	// RenderFailedError is of a render that was paid and came to nothing, or was deleted.
	RenderFailedError struct {
		*base
		Render *Render
	}
)

// remedy is the class of an error, and whether a repeat helps: yes, no or if_told a delay.
type remedy struct{ Class, Again string }

// errorTable is clients/reasons.json.
type errorTable struct {
	Reasons, Codes map[string]remedy
	WatchEnds      []string `json:"watch_ends"` // the codes after which nobody watches again
}

var remedies = sync.OnceValue(func() (table errorTable) {
	_ = json.Unmarshal([]byte(easelv1.Reasons), &table) // a test reads every row
	return table
})

// remedy is that of the reason, or of the code where there is none, or one of a newer server.
func (e *Error) remedy() remedy {
	if found, ok := remedies().Reasons[e.Reason]; ok {
		return found
	}
	return remedies().Codes[code.Code(e.Code).String()]
}

// classed is an error of its class.
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
