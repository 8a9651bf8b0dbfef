package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

func TestOnlyAllowedHeadersBecomeMetadata(t *testing.T) {
	servertest.RecordSpans(t)
	s := serve(t, servertest.NewStudio())
	answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g", "",
		"Grpc-Metadata-Authorization: Bearer other", "Grpc-Metadata-Easel-Rest-Certificates-Bin: YWRtaW4=", "Grpc-Metadata-Easel-Rest-Peer: 1.2.3.4",
		"Easel-Rest-Certificates-Bin: YWRtaW4=", "Cookie: a=b", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Host: evil.test",
		"X-Custom: 1", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Grpc-Timeout: 5S"))
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	var names []string
	for name := range s.LastMetadata() {
		names = append(names, name)
	}
	slices.Sort(names)
	// The call has no metadata except gRPC's own, the credential, the client's address, the requested host and
	// the trace context.
	if want := []string{":authority", "authorization", "content-type", "easel-rest-peer", "grpc-accept-encoding", "traceparent", "user-agent", "x-forwarded-for", "x-forwarded-host"}; !slices.Equal(names, want) {
		t.Errorf("metadata %q, want %q", names, want)
	}
	if got := s.LastMetadata().Get("traceparent"); len(got) != 1 || strings.Contains(got[0], "b7ad6b7169203331") {
		t.Errorf("the parent of the call is %q, not the span of the request", got)
	}
	if got := s.LastMetadata().Get("authorization"); !slices.Equal(got, []string{"Bearer key"}) {
		t.Errorf("the authorization metadata is %q, want Bearer key", got)
	}
	if s.Certificates()[0].Name() != "" {
		t.Errorf("a header set the certificate name to %q", s.Certificates()[0].Name())
	}
	for name := range answer.Header {
		if strings.HasPrefix(name, "Grpc-") {
			t.Errorf("the response has the header %s", name)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if calls := s.Lines(t, "call"); len(calls) != 1 || calls[0]["peer"] != "bufconn" || calls[0]["code"] != "OK" {
		t.Errorf("logged %v", calls)
	}
}

func TestDeadlineErrorAdvisesRetryWithMoreTime(t *testing.T) {
	studio := servertest.NewStudio()
	answered := make(chan struct{})
	defer close(answered)
	studio.Get = func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
		<-answered
		return &easelv1.GetGenerationResponse{}, nil
	}
	s := serve(t, studio)
	answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g", "", "Grpc-Timeout: 10m"))
	st := servertest.RESTStatus(t, body)
	if answer.StatusCode != http.StatusGatewayTimeout || st.Code() != codes.DeadlineExceeded || service.Reason(st) != easelv1.ErrorReason_DEADLINE_EXCEEDED || st.Message() != "the caller's deadline has passed; retry with more time" {
		t.Errorf("the error is %v, want DEADLINE_EXCEEDED with advice to retry", st.Proto())
	}
}

func TestJSONContainsZeroValuesButOmitsUnsetFields(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g", ""))
	if got := answer.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q, want application/json", got)
	}
	var fields struct{ Generation map[string]any }
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"generationId": "g", "terminal": false, "failureMessage": "", "state": "STATE_UNSPECIFIED"} {
		if fields.Generation[name] != want {
			t.Errorf("%s is %v, want %v", name, fields.Generation[name], want)
		}
	}
	for _, absent := range []string{"costCents", "createTime", "file"} {
		if value, there := fields.Generation[absent]; there {
			t.Errorf("%s is set: %v", absent, value)
		}
	}
}

func TestIdempotencyKeyIsAcceptedInHeaderOrBody(t *testing.T) {
	studio := servertest.NewStudio()
	studio.Create = func(_ context.Context, req *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
		return &easelv1.CreateGenerationResponse{Generation: &easelv1.Generation{GenerationId: req.GetIdempotencyKey()}}, nil
	}
	s := serve(t, studio)
	order := func(body string, headers ...string) (int, string) {
		answer, text := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodPost, "/v1/generations", `{"modelId":"m","inputs":{"prompt":"p"}`+body+`}`, headers...))
		return answer.StatusCode, text
	}
	for _, test := range []struct {
		name, body string
		headers    []string
		refused    bool
	}{
		{name: "key in a header", headers: []string{"Idempotency-Key: k"}},
		{name: "key in the body", body: `,"idempotencyKey":"k"`},
		{name: "equal keys in header and body", body: `,"idempotencyKey":"k"`, headers: []string{"Idempotency-Key: k"}},
		{name: "two equal headers", headers: []string{"Idempotency-Key: k", "Idempotency-Key: k"}},
		{name: "no key", refused: true},
		{name: "different keys in header and body", body: `,"idempotencyKey":"k"`, headers: []string{"Idempotency-Key: other"}, refused: true},
		{name: "two different headers", headers: []string{"Idempotency-Key: k", "Idempotency-Key: other"}, refused: true},
		{name: "not ASCII", headers: []string{"Idempotency-Key: kéy"}, refused: true},
		{name: "not UTF-8", headers: []string{"Idempotency-Key: k\xff"}, refused: true},
		{name: "10 KB", headers: []string{"Idempotency-Key: " + strings.Repeat("k", 10<<10)}, refused: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, text := order(test.body, test.headers...)
			if !test.refused {
				if code != http.StatusOK || !strings.Contains(text, `"k"`) {
					t.Errorf("%d: %s", code, text)
				}
				return
			}
			st := servertest.WantError(t, servertest.RESTStatus(t, text).Err(), codes.InvalidArgument, "INVALID_REQUEST")
			if got := service.Detail[*errdetails.BadRequest](st).GetFieldViolations()[0].GetField(); got != "idempotencyKey" {
				t.Errorf("the violation is in %q, want idempotencyKey", got)
			}
		})
	}
}

func TestInvalidRequestIsRejectedWithReasonAndOutcome(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		reason                   string
	}{
		{name: "a form", body: "modelId=m", headers: []string{"Content-Type: ", "Content-Type: application/x-www-form-urlencoded"}, code: 400, reason: "INVALID_REQUEST"},
		{name: "an HTML page", body: "<html>", headers: []string{"Content-Type: ", "Content-Type: text/html"}, code: 415, reason: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "an invalid media type", body: "{}", headers: []string{"Content-Type: ", "Content-Type: ;;"}, code: 415, reason: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "a body that is too large", body: strings.Repeat(" ", 5<<18+1), code: 413, reason: "REQUEST_TOO_LARGE"},
		{name: "a request from a page of another origin", body: `{}`, headers: []string{"Origin: http://evil.test"}, code: 403, reason: "CROSS_ORIGIN_REQUEST"},
		{name: "an empty last segment", method: http.MethodGet, path: "/v1/generations/", code: 400, reason: "INVALID_REQUEST"},
		{name: "an unknown path", method: http.MethodGet, path: "/v2/generations", code: 404, reason: "ROUTE_NOT_FOUND"},
		{name: "an escaped slash in an id", method: http.MethodGet, path: "/v1/generations/a%2Fb", code: 400, reason: "INVALID_REQUEST"},
		{name: "a path with dot segments", method: http.MethodGet, path: "/v1/generations/../me", code: 404, reason: "ROUTE_NOT_FOUND"},
		{name: "an unsupported method", method: http.MethodPut, path: "/v1/generations/g", code: 405, reason: "METHOD_NOT_ALLOWED"},
		{name: "an order with incomplete JSON", path: "/v1/generations", body: `{"model`, code: 400, reason: "INVALID_REQUEST"},
		{name: "an order with another media type", path: "/v1/generations", body: "{}", headers: []string{"Content-Type: ", "Content-Type: text/plain"}, code: 415, reason: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "an order from a page of another site", path: "/v1/generations", body: "{}", headers: []string{"Sec-Fetch-Site: cross-site"}, code: 403, reason: "CROSS_ORIGIN_REQUEST"},
		{name: "an order with an unknown parameter", path: "/v1/generations?price=1", body: "{}", code: 400, reason: "INVALID_REQUEST"},
		{name: "an order with an invalid query", path: "/v1/generations?%zz", body: "{}", code: 400, reason: "INVALID_REQUEST"},
		{name: "an order that is too large", path: "/v1/generations", body: strings.Repeat(" ", 5<<18+1), code: 413, reason: "REQUEST_TOO_LARGE"},
		{name: "a header that overrides the method", method: http.MethodPost, path: "/v1/generations/g", body: "{}", headers: []string{"X-HTTP-Method-Override: DELETE"}, code: 405, reason: "METHOD_NOT_ALLOWED"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.method == "" {
				test.method, test.path = http.MethodPost, cmp.Or(test.path, "/v1/generations:quote")
			}
			answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, test.method, test.path, test.body, test.headers...))
			if answer.StatusCode != test.code {
				t.Errorf("the response is %s, want %d: %s", answer.Status, test.code, body)
			}
			if got := service.Reason(servertest.RESTStatus(t, body)).String(); got != test.reason {
				t.Errorf("the reason is %q, want %q: %s", got, test.reason, body)
			}
			outcome := map[bool]string{true: "not_placed_by_this_call"}[test.method == http.MethodPost && regexp.MustCompile(`^/v1/generations(\?|$)`).MatchString(test.path)]
			if got := service.Detail[*errdetails.ErrorInfo](servertest.RESTStatus(t, body)).GetMetadata()["order_outcome"]; got != outcome {
				t.Errorf("the outcome of the order is %q, want %q", got, outcome)
			}
		})
	}
}

func TestUnsupportedMethodResponseListsAllowedMethods(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	for path, want := range map[string]string{
		"/v1/generations/g":         "GET, DELETE",
		"/v1/generations/g/content": "GET, HEAD",
		"/v1/generations:quote":     "POST",
		"/v1/generations/g:wait":    "GET",
		"/v1/generations/g:watch":   "GET",
	} {
		answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodPut, path, ""))
		if got := answer.Header.Get("Allow"); got != want {
			t.Errorf("%s allows %q, want %q", path, got, want)
		}
	}
	for _, call := range []string{"wait", "watch"} { // the path must not be read as the generation "g:wait"
		if answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodDelete, "/v1/generations/g:"+call, "")); answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("DELETE of the path of a %s returned %s", call, answer.Status)
		}
	}
}

func TestEscapedIDInPathIsDecodedOnce(t *testing.T) {
	studio := servertest.NewStudio()
	studio.Model = func(_ context.Context, req *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
		return &easelv1.GetModelResponse{Model: &easelv1.Model{ModelId: req.GetModelId()}}, nil
	}
	s := serve(t, studio)
	for path, want := range map[string]string{
		"/v1/generations/%2541":        `"%41"`,
		"/v1/generations/a%3Awatch":    `"a:watch"`,
		"/v1/generations/a%3Fb":        `"a?b"`,
		"/v1/models/house/model":       `"house/model"`,
		"/v1/models/house%2Fmodel":     `"house/model"`,
		"/v1/models/house/model:1.0":   `"house/model:1.0"`,
		"/v1/models/house/mo%20del":    `"house/mo del"`,
		"/v1/models/house//model/%252": `"house//model/%2"`,
	} {
		answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, path, ""))
		if answer.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s returned %s with %s, want %s", path, answer.Status, body, want)
		}
	}
}

func TestErrorResponseHasAuthenticateAndRetryHeaders(t *testing.T) {
	var failure error
	studio := servertest.NewStudio()
	studio.Get = func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
		return nil, failure
	}
	s := serve(t, studio)
	for _, test := range []struct {
		code         codes.Code
		reason       string
		retry        time.Duration
		name, header string
	}{
		{codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED", 0, "Www-Authenticate", "Bearer"},
		{codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED", 0, "Retry-After", ""},
		{codes.FailedPrecondition, "CONTENT_NOT_READY", 1200 * time.Millisecond, "Retry-After", "2"},
		{codes.ResourceExhausted, "UPSTREAM_RATE_LIMITED", time.Millisecond, "Retry-After", "1"},
	} {
		st, _ := status.New(test.code, "a message").WithDetails(&errdetails.ErrorInfo{Domain: "easel", Reason: test.reason})
		if test.retry > 0 {
			st, _ = st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(test.retry)})
		}
		failure = st.Err()
		answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g", ""))
		if got := answer.Header.Get(test.name); got != test.header || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with retry delay %v: %s is %q, want %q", test.reason, test.retry, test.name, got, test.header)
		}
	}
}

func TestInvalidRequestErrorContainsFieldName(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	const generation, order = "/v1/generations/g", "/v1/generations"
	for _, test := range []struct {
		name, path, body, header string // the method is POST if the body is not empty
		field, says              string
	}{
		{name: "an invalid number", path: order + "?pageSize=ten", field: "pageSize"},
		{name: "a number that is too large", path: order + "?pageSize=99999999999", field: "pageSize"},
		{name: "an invalid number in a snake_case parameter", path: order + "?page_size=1e9", field: "pageSize"},
		{name: "a repeated parameter", path: order + "?pageSize=1&pageSize=2", field: "pageSize"},
		{name: "an invalid state", path: order + "?filter.states=DONE", field: "states"},
		{name: "a repeated label", path: order + "?filter.labels[a]=1&filter.labels[a]=2"},
		{name: "an invalid duration", path: generation + "?maxStaleness=soon", field: "maxStaleness"},
		{name: "a duration without a unit", path: generation + ":watch?heartbeatInterval=15", field: "heartbeatInterval"},
		{name: "an invalid bool", path: generation + ":watch?includeContent=maybe", field: "includeContent"},
		{name: "an invalid offset", path: generation + "/content?readOffset=-", field: "readOffset"},
		{name: "an invalid time", path: "/v1/usage?startTime=yesterday", field: "startTime"},
		{name: "an invalid escape in a query", path: order + "?pageSize=%zz", says: "valid UTF-8"},
		{name: "a semicolon in a query", path: order + "?pageSize=1;pageToken=x", says: "semicolon"},
		{name: "a path that is not UTF-8", path: "/v1/generations/%FF", says: "valid UTF-8"},
		{name: "an invalid deadline", path: generation, header: "Grpc-Timeout: soon"},
		{name: "a deadline without a number", path: generation + ":watch", header: "Grpc-Timeout: S"},

		{name: "an invalid until", path: generation + ":watch?until=LATER", field: "until"},
		{name: "an invalid until for several generations", path: order + ":watch?until=LATER", field: "until"},
		{name: "an invalid deadline of a download", path: generation + "/content", header: "Grpc-Timeout: soon"},
		{name: "an invalid escape in the query of a download", path: generation + "/content?etag=%zz", says: "valid UTF-8"},

		{name: "a body that is not JSON", path: order, body: "model=a"},
		{name: "two JSON values", path: order, body: `{"modelId": "m"} {"modelId": "n"}`},
		{name: "an array", path: order, body: `[]`},
		{name: "an unknown member", path: order, body: `{"modelID": "m"}`, field: "modelID"},
		{name: "a truncated body", path: order, body: `{"modelId":`, says: "the body is not complete JSON"},
		{name: "a truncated string", path: order, body: `{"modelId": "m`, says: "the body is not complete JSON"},
		{name: "a field under both of its names", path: order, body: `{"modelId": "m", "model_id": "m"}`, field: "modelId"},
		{name: "a string field with a number", path: order, body: `{"modelId": 5}`, field: "modelId"},
		{name: "a number field with a string", path: order, body: `{"maxCostCents": "ten"}`, field: "maxCostCents"},
		{name: "inputs that are not an object", path: order, body: `{"inputs": 5}`, field: "inputs"},
		{name: "a label that is not a string", path: order, body: `{"labels": {"a": 5}}`, field: "labels.a"},
		{name: "a repeated input", path: order, body: "{\"modelId\": \"m\",\n\"inputs\": {\"é\": 1, \"a\": [], \"b\": {\"a\": 1, \"a\": 2}}}", field: "inputs.b.a"},
		{name: "a repeated label in a body", path: order, body: `{"labels": {"a": "1", "a": "2"}}`, field: "labels.a"},
		{name: "a byte that is not UTF-8", path: order, body: "{\"modelId\": \"\xff\"}"},
		{name: "a body that is nested too deeply", path: order, body: `{"inputs": {"a": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}}", field: "inputs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			method, headers := http.MethodGet, []string{}
			if test.body != "" {
				method = http.MethodPost
			}
			if test.header != "" {
				headers = append(headers, test.header)
			}
			answer, text := servertest.Do(t, s.HTTP, servertest.Request(t, method, test.path, test.body, headers...))
			st := servertest.WantError(t, servertest.RESTStatus(t, text).Err(), codes.InvalidArgument, "INVALID_REQUEST")
			if answer.StatusCode != http.StatusBadRequest {
				t.Errorf("the response is %s with %s", answer.Status, text)
			}
			faults := service.Detail[*errdetails.BadRequest](st).GetFieldViolations()
			if len(faults) != 1 || test.field != "" && faults[0].GetField() != test.field || !strings.Contains(faults[0].GetDescription(), test.says) {
				t.Errorf("the violations are %v", faults)
			}
			if want := strings.TrimPrefix(test.field+": "+test.says, ": "); !strings.HasPrefix(st.Message(), test.field) || test.body != "" && test.says != "" && st.Message() != want {
				t.Errorf("the message is %q", st.Message())
			}
		})
	}
}
