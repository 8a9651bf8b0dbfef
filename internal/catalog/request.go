package catalog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/easel-grpc/easel/internal/limiter"
)

// Maximum sizes of bodies, in bytes.
const (
	maxModels  = 8 << 20
	maxRecord  = 20 << 20 // maximum size of a record: 16 MiB of inputs, and 4 MiB for everything else
	maxFailure = 64 << 10
)

const (
	smallBody      = 256 << 10 // response bodies of at least this size are large; in bytes
	maxLargeBodies = 4         // maximum number of large response bodies in memory, not counting responses to orders
)

// OpCreate is the route that places an order. Error.Op and http.Request.Pattern contain routes in this form.
const OpCreate = "POST /generations"

// The routes other than [OpCreate].
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

// errNoAnswer is the cancellation cause of an attempt that timed out.
var errNoAnswer = errors.New("no response in time")

// request is one request to the catalog.
type request struct {
	op             string
	id             string // value of {id} in the route
	query          url.Values
	body           []byte
	idempotencyKey string
	leaveBy        time.Time   // time by which the body must be sent; zero means no limit
	header         http.Header // additional headers; only requests for content have any
}

// errManyLarge means that a large response was not decoded in time, because other large responses were being read or decoded.
var errManyLarge = errors.New("too many large responses at the same time")

// errLate means that a request was not sent in time: see [timelyBody].
var errLate = errors.New("request not sent in time")

// timelyBody is a request body that is not sent after leaveBy. It checks both the monotonic clock and the wall clock, because the
// monotonic clock may stop while the machine sleeps. If leaveBy passes while the body is being sent, the request stays incomplete.
type timelyBody struct {
	body    *bytes.Reader
	leaveBy time.Time
}

func (b timelyBody) Read(p []byte) (int, error) {
	if now := time.Now(); b.body.Len() > 0 && (!now.Before(b.leaveBy) || !now.Round(0).Before(b.leaveBy.Round(0))) {
		return 0, errLate
	}
	return b.body.Read(p)
}

// requester sends requests to one catalog. It retries requests that are safe to repeat.
type requester struct {
	base *url.URL
	// transport does not follow redirects. An [http.Client] would, and a redirect could send the API key to another port of the host,
	// or from https to http.
	transport  http.RoundTripper
	timeout    time.Duration // timeout of an attempt, including the time to read a JSON body
	called     func(context.Context, Credential, error)
	rejections *rejections
	elsewhere  *elsewhere
	limiters   *limiter.Set
	large      *semaphore.Weighted // limits the number of large bodies in memory to maxLargeBodies
	decoding   *semaphore.Weighted // allows only one large body to be decoded at a time, to leave processors for other calls
	class      limiter.Class       // limiter class of all requests except orders
	attempts   int                 // maximum number of attempts for one call
	jitter     *jitter
}

// attemptOnce acquires a permit, and sends a request once. It then passes the response to handleAnswer, unless the request is a
// deletion.
func (q *requester) attemptOnce(ctx context.Context, cred Credential, r *request, handleAnswer func(answer) error) error {
	permit, err := q.acquire(ctx, cred, r.op)
	if err != nil {
		return err
	}
	return q.attemptWith(ctx, permit, cred, r, handleAnswer)
}

// attemptWith is like attemptOnce, but uses the given permit. It releases the permit only after handleAnswer has returned, so
// that permits also limit the number of responses in memory.
func (q *requester) attemptWith(ctx context.Context, permit *limiter.Permit, cred Credential, r *request, handleAnswer func(answer) error) (err error) {
	defer func() { q.release(permit, cred, err) }()
	timed, cancel := context.WithTimeoutCause(ctx, q.timeout, errNoAnswer)
	defer cancel()
	resp, redact, err := q.sendRequest(timed, ctx, permit, cred, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if r.op == opDelete { // the status confirms the deletion; reading the body lets the connection be reused
		_, _ = io.CopyN(io.Discard, resp.Body, maxFailure)
		return nil
	}
	body, release, err := q.readBody(timed, r.op, resp)
	defer release()
	tooLarge, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isTooLarge:
		return &Error{Kind: KindMalformed, Op: r.op, Status: resp.StatusCode, Err: fmt.Errorf("response body too large: more than %d bytes", tooLarge.Limit)}
	case err != nil:
		return transportError(timed, ctx, r.op, err, redact)
	}
	return handleAnswer(answer{op: r.op, status: resp.StatusCode, body: body, time: time.Now(), redactor: redact})
}

// sendRequest sends a request, and returns a 2xx response with an unread body. For a download, it also returns a 416 response,
// which can mean that no bytes remain. Any other response results in an error. attemptCtx is the context of the attempt. Its
// parent, ctx, is the context of the caller.
//
// sendRequest releases the permit if it returns an error, or if the catalog redirects a download to another host. After each
// attempt that reached the transport and did not end with [KindBusy], it calls the function that was passed to
// [Client.Reporting].
func (q *requester) sendRequest(attemptCtx, ctx context.Context, permit *limiter.Permit, cred Credential, r *request) (*http.Response, *redactor, error) {
	key := cred.APIKey().Reveal()
	redact := newRedactor(key)
	req, err := q.newRequest(withOwner(attemptCtx, cred.Owner), key, r)
	if err != nil {
		err = &Error{Kind: KindContract, Op: r.op, Err: err}
	} else {
		err = contextError(ctx)
	}
	if err != nil {
		permit.Release(limiter.Result{Outcome: limiter.Unused})
		return nil, redact, err
	}
	resp, err := q.transport.RoundTrip(req)
	pastEnd := err == nil && r.op == opContent && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable
	to, leads := q.elsewhere.redirectTarget(r, req.URL, resp)
	switch {
	case err != nil:
		resp, err = nil, transportError(attemptCtx, ctx, r.op, err, redact)
	case leads:
		resp.Body.Close()
	case resp.StatusCode/100 != 2 && !pastEnd:
		failure := answerError(r.op, resp, redact)
		resp.Body.Close()
		failure.SharedKey = cred.Shared
		resp, err = nil, failure
	default:
		redact.dropFrom(resp.Header)
	}
	if err != nil || leads {
		q.release(permit, cred, err)
	}
	if KindOf(err) != KindBusy {
		q.rejections.recordOutcome(cred, err)
		q.called(ctx, cred, err)
	}
	if !leads {
		return resp, redact, err
	}
	resp, err = q.elsewhere.get(withOwner(attemptCtx, cred.Owner), req.Header.Get("Authorization"), r, to)
	if ended := contextError(ctx); err != nil && ended != nil {
		err = ended
	}
	return resp, redact, err
}

// largestBodies maps routes to the maximum size of their response bodies, in bytes. For other routes, the maximum is maxRecord.
var largestBodies = map[string]int64{opGenerations: maxList, opModels: maxModels}

// readBody reads the body of a response. The caller must call release after it has decoded the body, and also after an error.
func (q *requester) readBody(ctx context.Context, op string, resp *http.Response) (body []byte, release func(), err error) {
	release = func() {}
	remaining, err := boundedReader(resp, cmp.Or(largestBodies[op], maxRecord))
	if err != nil {
		return nil, release, err
	}
	first, err := io.ReadAll(io.LimitReader(remaining, smallBody))
	if err != nil || len(first) < smallBody {
		return first, release, err
	}
	if op != OpCreate { // an order's response must not wait until other large responses are processed
		if q.large.Acquire(ctx, 1) != nil {
			return nil, release, errManyLarge
		}
		release = func() { q.large.Release(1) }
	}
	body, err = io.ReadAll(io.MultiReader(bytes.NewReader(first), remaining))
	if err != nil || op == OpCreate {
		return body, release, err
	}
	if q.decoding.Acquire(ctx, 1) != nil {
		return nil, release, errManyLarge
	}
	return body, func() { q.decoding.Release(1); q.large.Release(1) }, nil
}

// boundedReader returns a reader for the body of a response. Reads fail after limit bytes. If Content-Length is larger than
// limit, boundedReader itself returns an error.
func boundedReader(resp *http.Response, limit int64) (io.Reader, error) {
	if resp.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	return http.MaxBytesReader(nil, resp.Body, limit), nil
}

// Headers of all requests. The encoding is identity, so that bytes and ranges refer to the stored file. All requests share
// these values, so a transport must not modify them.
var (
	sameHeader      = http.Header{"User-Agent": {"easel"}, "Accept-Encoding": {"identity"}}
	applicationJSON = []string{"application/json"}
)

func (q *requester) newRequest(ctx context.Context, key string, r *request) (*http.Request, error) {
	method, route, _ := strings.Cut(r.op, " ")
	before, after, _ := strings.Cut(route, "{id}")
	req, err := http.NewRequestWithContext(ctx, method, "", nil)
	if err != nil {
		return nil, err
	}
	u := req.URL
	u.Scheme, u.Host, req.Host = q.base.Scheme, q.base.Host, q.base.Host
	u.Path = q.base.Path + before + r.id + after
	u.RawPath = q.base.EscapedPath() + before + url.PathEscape(r.id) + after
	u.RawQuery = r.query.Encode()
	req.Pattern = r.op
	maps.Copy(req.Header, r.header)
	maps.Copy(req.Header, sameHeader)
	req.Header["Authorization"] = []string{"Bearer " + key}
	if r.op != opContent {
		req.Header["Accept"] = applicationJSON
	}
	if r.body != nil {
		req.Header["Content-Type"] = applicationJSON
		// NopCloser hides the reader's type, so that net/http cannot rewind the body and send the request a second time.
		req.Body = io.NopCloser(bytes.NewReader(r.body))
		if !r.leaveBy.IsZero() {
			req.Body = io.NopCloser(timelyBody{bytes.NewReader(r.body), r.leaveBy})
		}
		req.ContentLength = int64(len(r.body))
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	return req, nil
}

// transportError returns the error for a request that got no complete response.
func transportError(timed, ctx context.Context, op string, err error, redact *redactor) error {
	if ended := contextError(ctx); ended != nil {
		return ended
	}
	for _, unsent := range []error{errNoConnection, errLate, errManyLarge} {
		if errors.Is(err, unsent) {
			return &Error{Kind: KindBusy, Op: op, Message: unsent.Error()}
		}
	}
	if cause := context.Cause(timed); cause != nil {
		err = cause
	}
	return &Error{Kind: KindUnavailable, Op: op, Err: &redactedError{text: redact.cleanText(err.Error()), err: err}}
}

// contextError returns the error of ctx if ctx is done, and otherwise nil. It also checks the deadline, because a dialer can
// fail at the deadline shortly before ctx is done.
func contextError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// redactedError is a network error with redacted text. The original text may contain parts of a response.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// answer is a 2xx response with its body.
type answer struct {
	op       string
	status   int
	body     []byte
	time     time.Time
	redactor *redactor
}

// malformedError returns the error for an unreadable response.
func (a answer) malformedError(why string) error {
	return &Error{Kind: KindMalformed, Op: a.op, Status: a.status, Err: errors.New(why)}
}

// list returns the items of the list that [findList] finds in the body. It does not redact them.
func (a answer) list(names []string, weights []weight) ([]JSON, error) {
	body, err := parse(a.body)
	if err != nil {
		return nil, a.malformedError(err.Error())
	}
	items, ok := findList(body, names, weights, maxEnvelope)
	if !ok {
		return nil, a.malformedError("no list in the body")
	}
	return items, nil
}

// parseBody parses the body. It redacts the API key of the call, because this may be a shared key that callers must not see.
func (a answer) parseBody() (JSON, error) {
	body, err := parse(a.body)
	if err != nil {
		return "", a.malformedError(err.Error())
	}
	return a.redactor.redact(body), nil
}
