package server_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// row is a row of the error table. It contains the catalog's response and the error that the caller must get.
type row struct {
	name   string
	fault  sandbox.Fault // the injected fault; runRow sets its Route
	call   string        // name of the call: a key of errorCalls
	code   codes.Code
	reason string
	http   int
	retry  bool     // whether the error has RetryInfo and, over REST, the header Retry-After
	fields []string // expected field names in the BadRequest detail
	detail proto.Message

	outcome  string // expected order_outcome of a create; empty means "unknown"
	upstream string // error code from the catalog that the error's metadata must contain
}

var errorTable = []row{
	{name: "400 that names an input", call: "create", outcome: notPlaced, upstream: "INVALID", fault: answer(400, `{"code":"INVALID","message":"no","details":{"field":"prompt"}}`), code: codes.InvalidArgument, reason: "UPSTREAM_INVALID_INPUT", http: 400, fields: []string{"inputs.prompt"}},
	{name: "400 without a message", call: "create", outcome: notPlaced, upstream: "INVALID", fault: answer(400, `{"code":"INVALID","details":{"fields":["prompt","size"]}}`), code: codes.InvalidArgument, reason: "UPSTREAM_INVALID_INPUT", http: 400, fields: []string{"inputs.prompt", "inputs.size"}},
	{name: "422 that names the model", call: "create", outcome: notPlaced, upstream: "INVALID", fault: answer(422, `{"code":"INVALID","message":"no","details":{"field":"modelId"}}`), code: codes.InvalidArgument, reason: "UPSTREAM_INVALID_INPUT", http: 400, fields: []string{"model_id"}},
	{name: "401", call: "account", fault: answer(401, `{}`), code: codes.Unauthenticated, reason: "UPSTREAM_CREDENTIAL_REJECTED", http: 401},
	{name: "401 on create", call: "create", outcome: notPlaced, upstream: "UNAUTHORIZED", fault: answer(401, `{"code":"UNAUTHORIZED"}`), code: codes.Unauthenticated, reason: "UPSTREAM_CREDENTIAL_REJECTED", http: 401},
	{name: "401 in a wait", call: "wait", fault: answer(401, `{}`), code: codes.Unauthenticated, reason: "UPSTREAM_CREDENTIAL_REJECTED", http: 401},
	{name: "401 in a watch", call: "watch", fault: answer(401, `{}`), code: codes.Unauthenticated, reason: "UPSTREAM_CREDENTIAL_REJECTED", http: 401},
	{name: "401 in a watch of many renders", call: "watch many", fault: answer(401, `{}`), code: codes.Unauthenticated, reason: "UPSTREAM_CREDENTIAL_REJECTED", http: 401},
	{name: "402", call: "create", fault: answer(402, `{}`), code: codes.FailedPrecondition, reason: "INSUFFICIENT_BALANCE", http: 402, detail: &errdetails.PreconditionFailure{}},
	{name: "402 with a catalog error body", call: "create", outcome: notPlaced, fault: answer(402, `{"code":"no money","message":"no"}`), code: codes.FailedPrecondition, reason: "INSUFFICIENT_BALANCE", http: 402},
	{name: "403", call: "read", fault: answer(403, `{}`), code: codes.PermissionDenied, reason: "UPSTREAM_FORBIDDEN", http: 403},
	{name: "404 on a generation", call: "read", fault: answer(404, `{}`), code: codes.NotFound, reason: "GENERATION_NOT_FOUND", http: 404, detail: &errdetails.ResourceInfo{}},
	{name: "410 on a generation", call: "read", fault: answer(410, `{}`), code: codes.NotFound, reason: "GENERATION_NOT_FOUND", http: 404, detail: &errdetails.ResourceInfo{}},
	{name: "404 on a model", call: "model", fault: answer(404, `{}`), code: codes.NotFound, reason: "MODEL_NOT_FOUND", http: 404, detail: &errdetails.ResourceInfo{}},
	{name: "404 on create", call: "create", outcome: notPlaced, upstream: "MODEL_NOT_FOUND", fault: answer(404, `{"code":"model_not_found"}`), code: codes.NotFound, reason: "MODEL_NOT_FOUND", http: 404},
	{name: "404 on a collection", call: "list", fault: answer(404, `{}`), code: codes.Internal, reason: "UPSTREAM_CONTRACT_MISMATCH", http: 500},
	{name: "409 daily cap", call: "create", outcome: notPlaced, upstream: "API_KEY_DAILY_CAP", fault: answer(409, `{"code":"API_KEY_DAILY_CAP"}`), code: codes.ResourceExhausted, reason: "API_KEY_DAILY_CAP", http: 429, detail: &errdetails.QuotaFailure{}},
	{name: "409 on create, not the daily cap", call: "create", upstream: "BUSY", fault: answer(409, `{"code":"BUSY"}`), code: codes.Aborted, reason: "SUBMISSION_IN_PROGRESS", http: 409, retry: true},
	{name: "409 on content of a live generation", call: "content", fault: answer(409, `{}`), code: codes.FailedPrecondition, reason: "CONTENT_NOT_READY", http: 400, retry: true},
	{name: "425 on content of a live generation", call: "content", fault: answer(425, `{}`), code: codes.FailedPrecondition, reason: "CONTENT_NOT_READY", http: 400, retry: true},
	{name: "404 on content of a live generation", call: "content", fault: answer(404, `{}`), code: codes.FailedPrecondition, reason: "CONTENT_NOT_READY", http: 400, retry: true},
	{name: "413", call: "create", fault: answer(413, `{}`), code: codes.InvalidArgument, reason: "INPUTS_TOO_LARGE", http: 400, fields: []string{"inputs"}},
	{name: "429 with Retry-After", call: "account", fault: throttled, code: codes.ResourceExhausted, reason: "UPSTREAM_RATE_LIMITED", http: 429, retry: true},
	{name: "500 with an HTML page", call: "account", fault: answer(500, `<html>secret stack</html>`), code: codes.Unavailable, reason: "UPSTREAM_UNAVAILABLE", http: 503, retry: true},
	{name: "503", call: "read", fault: answer(503, ``), code: codes.Unavailable, reason: "UPSTREAM_UNAVAILABLE", http: 503, retry: true},
	{name: "connection reset", call: "account", fault: sandbox.Fault{Reset: true}, code: codes.Unavailable, reason: "UPSTREAM_UNAVAILABLE", http: 503, retry: true},
	{name: "500 on create", call: "create", fault: answer(500, ``), code: codes.Unavailable, reason: "SUBMISSION_OUTCOME_UNKNOWN", http: 503, retry: true},
	{name: "connection reset on create", call: "create", fault: sandbox.Fault{Reset: true}, code: codes.Unavailable, reason: "SUBMISSION_OUTCOME_UNKNOWN", http: 503, retry: true},
	{name: "malformed 200 on create", call: "create", fault: answer(200, `[[`), code: codes.Unavailable, reason: "SUBMISSION_OUTCOME_UNKNOWN", http: 503, retry: true},
	{name: "301", call: "account", fault: sandbox.Fault{Redirect: "http://127.0.0.1:1/", Status: 301}, code: codes.Internal, reason: "UPSTREAM_REDIRECT_REFUSED", http: 500},
	{name: "303 on create", call: "create", fault: sandbox.Fault{Redirect: "http://127.0.0.1:1/", Status: 303}, code: codes.Unavailable, reason: "SUBMISSION_OUTCOME_UNKNOWN", http: 503, retry: true},
	{name: "307 on create", call: "create", fault: sandbox.Fault{Redirect: "http://127.0.0.1:1/", Status: 307}, code: codes.Internal, reason: "UPSTREAM_REDIRECT_REFUSED", http: 500},
	{name: "418", call: "account", fault: answer(418, `{}`), code: codes.Internal, reason: "UPSTREAM_CONTRACT_MISMATCH", http: 500},
	{name: "malformed 200", call: "read", fault: answer(200, `{"id":`), code: codes.Internal, reason: "UPSTREAM_MALFORMED_RESPONSE", http: 500},
	{name: "403 on the list of models", call: "models", fault: answer(403, `{}`), code: codes.PermissionDenied, reason: "UPSTREAM_FORBIDDEN", http: 403},
	{name: "402 on a quote", call: "quote", fault: answer(402, `{}`), code: codes.FailedPrecondition, reason: "INSUFFICIENT_BALANCE", http: 402, detail: &errdetails.PreconditionFailure{}},
	{name: "404 on a delete", call: "delete", fault: answer(404, `{}`), code: codes.NotFound, reason: "GENERATION_NOT_FOUND", http: 404, detail: &errdetails.ResourceInfo{}},
	{name: "page token of another report", call: "usage", fault: answer(500, ``), code: codes.InvalidArgument, reason: "INVALID_REQUEST", http: 400, fields: []string{"page_token"}},
	{name: "events of a forwarded API key", call: "events", fault: answer(500, ``), code: codes.InvalidArgument, reason: "INVALID_REQUEST", http: 400, fields: []string{"authorization"}},
	{name: "idempotency key of another order", call: "create", upstream: "IDEMPOTENCY_KEY_REUSED", fault: answer(422, `{"code":"IDEMPOTENCY_KEY_REUSED"}`), code: codes.AlreadyExists, reason: "IDEMPOTENCY_KEY_REUSED", http: 409},
}

func answer(status int, body string) sandbox.Fault { return sandbox.Fault{Status: status, Body: body} }

var throttled = sandbox.Fault{Status: 429, Body: `{}`, Header: map[string]string{"Retry-After": "7"}}

// errorCalls maps the name of each call in the table to its method, the catalog route at which the fault happens, and
// its request. The route is empty if the call sends no request to the catalog. If the request is nil, [row.sendCall]
// creates it.
var errorCalls = map[string]struct {
	method, route string
	request       proto.Message
}{
	"account":    {"AccountService/GetAccount", "GET /me", &easelv1.GetAccountRequest{}},
	"usage":      {"AccountService/ListUsage", "", &easelv1.ListUsageRequest{PageToken: "of another one"}},
	"models":     {"ModelService/ListModels", "GET /models", &easelv1.ListModelsRequest{}},
	"model":      {"ModelService/GetModel", "GET /models/detail", &easelv1.GetModelRequest{ModelId: "a/b"}},
	"quote":      {"GenerationService/QuoteGeneration", "POST /quote", &easelv1.QuoteGenerationRequest{ModelId: text, InputsJson: `{"prompt":"a lake"}`}},
	"create":     {"GenerationService/CreateGeneration", "POST /generations", nil},
	"read":       {"GenerationService/GetGeneration", "GET /generations/{id}", &easelv1.GetGenerationRequest{GenerationId: elsewhere}},
	"list":       {"GenerationService/ListGenerations", "GET /generations", &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{ModelId: "nothing/ordered"}}}, // with this filter, the server requests the list from the catalog
	"wait":       {"GenerationService/WaitGeneration", "GET /generations/{id}", &easelv1.WaitGenerationRequest{GenerationId: elsewhere}},
	"watch":      {"GenerationService/WatchGeneration", "GET /generations/{id}", &easelv1.WatchGenerationRequest{GenerationId: elsewhere}},
	"watch many": {"GenerationService/WatchGenerations", "GET /generations", &easelv1.WatchGenerationsRequest{}},
	"events":     {"GenerationService/WatchEvents", "", &easelv1.WatchEventsRequest{}},
	"content":    {"GenerationService/DownloadGeneration", "GET /generations/{id}/content", nil},
	"delete":     {"GenerationService/DeleteGeneration", "DELETE /generations/{id}", &easelv1.DeleteGenerationRequest{GenerationId: elsewhere, Force: true}},
}

// elsewhere is the ID of a generation that another process has ordered. For a generation that this process has just
// ordered, Easel would treat a 404 as "not visible yet".
const elsewhere = "of-another-process"

func TestErrorsMatchErrorTable(t *testing.T) {
	t.Parallel()
	for _, row := range errorTable {
		t.Run(row.name, func(t *testing.T) { overBoth(t, row.runRow, func(o *options) { o.sandbox.Speed = 0.01 }) })
	}
}

// runRow tests a row of the error table: it injects the row's fault, sends the row's call, and checks that the call
// returns the row's error.
func (r row) runRow(t *testing.T, s *stack, c caller) {
	live := create(t, c, order(t, picture, "live", "a lake")).GetGenerationId()
	r.fault.Route = errorCalls[r.call].route
	fault := s.sandbox.Inject(r.fault)
	defer s.sandbox.ClearFaults()
	err := r.sendCall(t, c, live)
	for n := 0; n < 5 && r.hasTimedOut(t, err); n++ {
		err = r.sendCall(t, c, live)
	}
	if fired := fault.Fired(); (fired == 0) != (r.fault.Route == "") || r.call == "create" && !r.retry && fired != 1 {
		t.Fatalf("the fault fired %d times", fired)
	}
	r.check(t, wantStatus(t, err, r.code, r.reason, r.http), err)
}

// sendCall sends a row's call. If an order's error has RetryInfo, the server resends the order until the
// deadline. The call of such a row therefore has a short deadline.
func (r row) sendCall(t *testing.T, c caller, id string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request := errorCalls[r.call].request
	switch r.call {
	case "create":
		if r.retry {
			ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
		}
		request = order(t, text, strings.ReplaceAll(t.Name(), " ", "-"), "a lake")
	case "content":
		request = &easelv1.DownloadGenerationRequest{GenerationId: id}
	}
	return callAny(ctx, c, errorCalls[r.call].method, request, &easelv1.GetAccountResponse{})
}

// hasTimedOut reports whether a create call timed out before it could return the catalog's error. In that case,
// runRow repeats the call with the same key. The repeated call usually returns the error in time.
func (r row) hasTimedOut(t *testing.T, err error) bool {
	if r.call != "create" || !r.retry {
		return false
	}
	st := statusOf(t, err)
	return st.Code() == codes.DeadlineExceeded || r.fault.Status != 0 && metadataOf(t, st)["upstream_status"] == ""
}

func (r row) check(t *testing.T, st *status.Status, err error) {
	t.Helper()
	if got := retryDelay(st) > 0; got != r.retry {
		t.Errorf("has RetryInfo: %v, want %v", got, r.retry)
	}
	if r.fault.Header["Retry-After"] == "7" && retryDelay(st) != 7*time.Second {
		t.Errorf("retry after %v, want 7 s", retryDelay(st))
	}
	var rest *restFailure
	if errors.As(err, &rest) && (rest.header.Get("Retry-After") != "") != r.retry {
		t.Errorf("unexpected Retry-After header %q", rest.header.Get("Retry-After"))
	}
	if r.fields != nil {
		wantFields(t, st, r.fields...)
	}
	if r.detail != nil && !hasDetail(st, r.detail) {
		t.Errorf("no %T in %v", r.detail, st.Proto())
	}
	outcome := ""
	if r.call == "create" {
		outcome = cmp.Or(r.outcome, mayExist)
	}
	if got := outcomeOf(t, st); got != outcome {
		t.Errorf("the outcome of the order is %q, want %q", got, outcome)
	}
	if got := metadataOf(t, st)["upstream_code"]; got != r.upstream {
		t.Errorf("the catalog's code is %q, want %q", got, r.upstream)
	}
	if r.fault.Status != 0 && r.fault.Route != "" && metadataOf(t, st)["upstream_status"] == "" {
		t.Error("no upstream_status in the metadata")
	}
	if strings.Contains(st.Message(), "<html>") || strings.Contains(st.Message(), "secret") {
		t.Errorf("the message contains the catalog's page: %s", st.Message())
	}
	if n := proto.Size(st.Proto()); n > 4<<10 {
		t.Errorf("the status has %d bytes", n)
	}
}

func hasDetail(st *status.Status, want proto.Message) bool {
	return slices.ContainsFunc(st.Details(), func(d any) bool {
		m, ok := d.(proto.Message)
		return ok && m.ProtoReflect().Descriptor() == want.ProtoReflect().Descriptor()
	})
}

type withHeader struct {
	http.RoundTripper
	name, value string
}

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return h.RoundTripper.RoundTrip(r)
}

func TestDownloadWithInvalidOffsetOrEtagIsRejected(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *stack, c caller) {
		id := orderPicture(t, c, "64x40")
		_, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id, ReadOffset: 1 << 40})
		wantStatus(t, err, codes.OutOfRange, "READ_OFFSET_OUT_OF_RANGE", 416)
		_, err = downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id, Etag: `"another"`})
		wantStatus(t, err, codes.DataLoss, "CONTENT_CHANGED", 412)
	})
}
