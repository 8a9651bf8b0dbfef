package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// The routes, as they stand in Error.Op and in http.Request.Pattern.
const (
	opAccount     = "GET /me"
	opModels      = "GET /models"
	opModel       = "GET /models/detail"
	opQuote       = "POST /quote"
	opGenerations = "GET /generations"
	opGeneration  = "GET /generations/{id}"
	opContent     = "GET /generations/{id}/content"
	opDelete      = "DELETE /generations/{id}"
)

// The most that is read of a body, in bytes.
const (
	maxList    = 8 << 20
	maxRecord  = 4 << 20
	maxFailure = 64 << 10
	maxAhead   = 256 << 10 // before the first byte has come
)

// maxIDBytes is the longest identifier that is sent.
const maxIDBytes = 256

// errSilent is why an attempt was given up: the catalog took too long.
var errSilent = errors.New("no answer in time")

// request is one call of the catalog.
type request struct {
	op             string
	id             string // what {id} stands for
	query          url.Values
	body           []byte
	idempotencyKey string
	header         http.Header // more headers, for content
}

// answer is a 2xx with its body.
type answer struct {
	op       string
	status   int
	body     []byte
	time     time.Time
	redactor redactor
}

// malformed is the error of an answer that can't be read.
func (a answer) malformed(why string) error {
	return &Error{Kind: KindMalformed, Op: a.op, Status: a.status, Err: errors.New(why)}
}

// fetch sends a request that may be repeated, and reads its answer.
func fetch[T any](ctx context.Context, c *Client, cred Credential, r request, read func(answer) (T, error)) (T, error) {
	var value T
	err := c.retry(ctx, func(ctx context.Context) error {
		a, err := c.attempt(ctx, cred, r)
		if err == nil {
			value, err = read(a)
		}
		return err
	})
	return value, err
}

// attempt sends a request once and reads the whole answer. It is the one place where
// a status becomes a kind; content bodies alone are read elsewhere.
func (c *Client) attempt(ctx context.Context, cred Credential, r request) (answer, error) {
	timed, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	resp, redact, err := c.send(timed, ctx, cred, r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if r.op == opDelete { // a deletion that was confirmed needs no body
		_, _ = io.CopyN(io.Discard, resp.Body, maxFailure)
		return answer{}, nil
	}
	limit := int64(maxRecord)
	if r.op == opModels || r.op == opGenerations {
		limit = maxList
	}
	body, err := readAll(resp, limit)
	switch {
	case errors.Is(err, errTooLarge):
		return answer{}, &Error{Kind: KindMalformed, Op: r.op, Status: resp.StatusCode, Err: err}
	case err != nil:
		return answer{}, c.unreached(timed, ctx, r.op, err, redact)
	}
	return answer{op: r.op, status: resp.StatusCode, body: body, time: c.now(), redactor: redact}, nil
}

// send sends a request and returns a 2xx with its body unread, or the 416 of a content
// request, which can mean an empty rest; everything else is an error. The request runs on
// timed, which belongs to one attempt, below ctx, which is the caller's. It is the one place
// where requests leave, and tells [Config.Called] of those that did.
func (c *Client) send(timed, ctx context.Context, cred Credential, r request) (*http.Response, redactor, error) {
	key := cred.Key().Reveal()
	if !printable(key) {
		return nil, redactor{}, &Error{
			Kind: KindCredentialRejected, Op: r.op, Held: cred.Held,
			Err: errors.New("the key is empty or has characters that no header can carry"),
		}
	}
	redact := newRedactor(key)
	req, err := c.newRequest(timed, key, r)
	if err != nil {
		return nil, redact, &Error{Kind: KindContract, Op: r.op, Err: err}
	}
	if err := endOf(ctx); err != nil {
		return nil, redact, err
	}
	resp, err := c.transport.RoundTrip(req)
	pastEnd := err == nil && r.op == opContent && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable
	switch {
	case err != nil:
		resp, err = nil, c.unreached(timed, ctx, r.op, err, redact)
	case resp.StatusCode/100 != 2 && !pastEnd:
		refusal := c.refused(resp, r, redact)
		resp.Body.Close()
		refusal.Held = cred.Held
		resp, err = nil, refusal
	default:
		redact.dropFrom(resp.Header)
	}
	c.called(ctx, cred, err)
	return resp, redact, err
}

// always are headers of every request. Bytes and ranges must be those of the file itself.
var (
	always     = http.Header{"User-Agent": {"easel"}, "Accept-Encoding": {"identity"}}
	acceptJSON = []string{"application/json"}
)

func (c *Client) newRequest(ctx context.Context, key string, r request) (*http.Request, error) {
	method, route, _ := strings.Cut(r.op, " ")
	req, err := http.NewRequestWithContext(ctx, method, "", nil)
	if err != nil {
		return nil, err
	}
	u := req.URL
	u.Scheme, u.Host, req.Host = c.base.Scheme, c.base.Host, c.base.Host
	u.Path = c.base.Path + strings.Replace(route, "{id}", r.id, 1)
	u.RawPath = c.base.EscapedPath() + strings.Replace(route, "{id}", url.PathEscape(r.id), 1)
	u.RawQuery = r.query.Encode()
	req.Pattern = r.op
	maps.Copy(req.Header, r.header)
	req.Header["Authorization"] = []string{"Bearer " + key}
	maps.Copy(req.Header, always)
	if r.op != opContent {
		req.Header["Accept"] = acceptJSON
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
		// Hidden behind another type, NewRequest or Do can't make a GetBody of it.
		req.Body = io.NopCloser(bytes.NewReader(r.body))
		req.ContentLength = int64(len(r.body))
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	return req, nil
}

// unreached is the error of a request that got no answer, or half of one.
func (c *Client) unreached(timed, ctx context.Context, op string, err error, redact redactor) error {
	if ended := endOf(ctx); ended != nil {
		return ended
	}
	if cause := context.Cause(timed); cause != nil {
		err = cause
	}
	return &Error{Kind: KindUnavailable, Op: op, Err: &hiddenError{text: redact.clean(err.Error()), err: err}}
}

// endOf gives the error of a context that is over. A dialer works by the deadline
// itself and can be a moment faster than the context.
func endOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// hiddenError is a network error whose text was redacted: parts of an answer can
// stand in it.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

var errTooLarge = errors.New("the body is too large")

// readAll reads a body of at most limit bytes.
func readAll(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	var body bytes.Buffer
	body.Grow(int(min(max(resp.ContentLength, 0), maxAhead)) + bytes.MinRead) // else it grows step by step
	if _, err := body.ReadFrom(io.LimitReader(resp.Body, limit+1)); err != nil {
		return nil, err
	}
	if int64(body.Len()) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	return body.Bytes(), nil
}

// checkID refuses identifiers that could lead to another path than the intended one,
// on the wire or behind a proxy that decodes it.
func checkID(op, field, id string) error {
	switch {
	case id == "":
		return invalid(op, field, "must not be empty")
	case len(id) > maxIDBytes:
		return invalid(op, field, fmt.Sprintf("must not be longer than %d bytes", maxIDBytes))
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return invalid(op, field, "must be text without control characters")
	}
	for _, part := range strings.FieldsFunc(id, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return invalid(op, field, "must not have . or .. between slashes")
		}
	}
	return nil
}

func checkIdempotencyKey(key string) error {
	if !printable(key) || len(key) > maxIDBytes {
		return invalid(opCreate, "idempotency_key", fmt.Sprintf("must have 1 to %d visible ASCII characters", maxIDBytes))
	}
	return nil
}

// printable reports whether text is of one or more visible ASCII characters.
func printable(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func isObject(text json.RawMessage) bool {
	start := bytes.TrimLeft(text, " \t\r\n")
	return len(start) > 0 && start[0] == '{' && json.Valid(text) && utf8.Valid(text)
}

func invalid(op, field, description string) error {
	return &Error{Kind: KindInvalidInput, Op: op, Violations: []Violation{{Field: field, Description: description}}}
}
