package catalog

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the maximum delay that [ParseRetryAfter] returns. A longer delay in the header is shortened to this maximum.
const maxRetryAfter = 2 * time.Minute

// statuses maps HTTP statuses to kinds of errors, for all routes. For a status that is not in the map, a 3xx means
// [KindRedirect], a 5xx means [KindUnavailable], and any other status means [KindContract].
var statuses = map[int]Kind{
	http.StatusBadRequest:          KindInvalidInput,
	http.StatusUnauthorized:        KindCredentialRejected,
	http.StatusPaymentRequired:     KindInsufficientFunds,
	http.StatusForbidden:           KindForbidden,
	http.StatusRequestTimeout:      KindUnavailable,
	http.StatusUnprocessableEntity: KindInvalidInput,
	http.StatusTooManyRequests:     KindRateLimited,
}

// routeStatuses maps the HTTP statuses of each route to kinds. Its entries take precedence over those in statuses.
var routeStatuses = map[string]map[int]Kind{
	opModel:      {http.StatusNotFound: KindNotFound, http.StatusGone: KindNotFound},
	opGeneration: {http.StatusNotFound: KindNotFound, http.StatusGone: KindNotFound},
	opDelete:     {http.StatusNotFound: KindNotFound, http.StatusGone: KindNotFound},
	opQuote:      {http.StatusRequestEntityTooLarge: KindInputsTooLarge},
	OpCreate: {
		http.StatusRequestEntityTooLarge: KindInputsTooLarge,
		http.StatusConflict:              KindInProgress,
		http.StatusTooEarly:              KindInProgress,
	},
	opContent: {
		http.StatusNotFound:                     KindNotFound,
		http.StatusGone:                         KindNotFound,
		http.StatusConflict:                     KindContentNotReady,
		http.StatusTooEarly:                     KindContentNotReady,
		http.StatusRequestedRangeNotSatisfiable: KindOutOfRange,
	},
}

// answerError returns the error for a response that is not a 2xx. If the body can't be read, the error is based only on the
// status and the headers.
func answerError(op string, resp *http.Response, redact *redactor) *Error {
	var body []byte
	if resp.StatusCode != http.StatusSwitchingProtocols { // reading the body of a 101 could block forever, because that body is the connection itself
		if reader, err := boundedReader(resp, maxFailure); err == nil {
			body, _ = io.ReadAll(reader)
		}
	}
	detail := readErrorBody(op, resp.Header.Get("Content-Type"), body, redact)
	e := &Error{
		Kind:       kindOf(op, resp.StatusCode, detail.code),
		Op:         op,
		Status:     resp.StatusCode,
		Code:       detail.code,
		Message:    detail.message,
		Own:        detail.own,
		AboutKey:   op == OpCreate && detail.containsWord(aboutKey),
		RetryAfter: ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
	if e.Kind == KindInvalidInput {
		e.Violations = detail.violations
	}
	switch {
	case e.Kind == KindRedirect && op == opContent:
		e.Message = "the catalog redirects to a host that is not allowed: check the base URL or EASEL_CONTENT_HOSTS"
	case e.Kind == KindRedirect:
		e.Message = "the catalog redirected the request, and Easel does not follow redirects: check the base URL"
	case e.Kind == KindContract && resp.StatusCode == http.StatusNotFound:
		e.Message = strings.TrimSuffix("check the base URL: it has no "+op+": "+e.Message, ": ")
	}
	return e
}

// kindOf returns the kind of error for a response that is not a 2xx.
func kindOf(op string, status int, code string) Kind {
	if kind := kindOfCode(op, status, Fold(code)); kind != 0 && codeDecides(status) {
		return kind
	}
	if kind, ok := routeStatuses[op][status]; ok {
		return kind
	}
	if kind, ok := statuses[status]; ok {
		return kind
	}
	switch status / 100 {
	case 3:
		return KindRedirect
	case 5:
		return KindUnavailable
	}
	return KindContract
}

// codeDecides reports whether the error code in a response takes precedence over the HTTP status. It does for every 4xx
// except 408 and 425, which are never treated as rejections, whatever the body contains.
func codeDecides(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooEarly
}

// kindOfCode returns the kind of error that a code indicates, or 0 if the code indicates no more than the HTTP status does.
func kindOfCode(op string, status int, code string) Kind {
	switch kind := codes[code]; {
	case kind != 0:
		return kind
	case op == OpCreate && strings.Contains(code, aboutKey):
		return KindKeyReused
	case op == opContent:
		return contentCodes[code]
	case (op == opQuote || op == OpCreate) && status == http.StatusNotFound && slices.Contains(modelCodes, code):
		return KindNotFound
	}
	return 0
}

// ParseRetryAfter parses a Retry-After header and returns the requested delay. The header contains whole seconds, or an HTTP
// date that is compared with now. The delay is at most two minutes. It is 0 for an invalid header, for zero or fewer seconds,
// and for a date in the past.
func ParseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), maxRetryAfter)
}
