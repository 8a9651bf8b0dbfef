package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// Value of statusRow.op in a row that applies to all routes. A row with the same status and body for a single route
// takes precedence.
const every = ""

type statusRow struct {
	op     string
	status int
	body   string
	want   Kind
}

func TestEachHTTPStatusMapsToItsErrorKind(t *testing.T) {
	var rows []statusRow
	for _, same := range []struct {
		op       string
		want     Kind
		statuses []int
	}{
		{every, KindRedirect, []int{300, 301, 302, 303, 304, 305, 307, 308, 399}},
		{OpCreate, KindOutcomeUnknown, []int{300, 301, 302, 303, 304, 305, 399, 408, 500, 501, 502, 503, 504, 599, 999}},
		{every, KindInvalidInput, []int{400, 422}},
		{every, KindCredentialRejected, []int{401}},
		{every, KindInsufficientFunds, []int{402}},
		{every, KindForbidden, []int{403}},
		{every, KindContract, []int{404, 405, 406, 407, 409, 410, 413, 414, 415, 416, 418, 425, 431, 451, 999}},
		{opModel, KindNotFound, []int{404, 410}},
		{opGeneration, KindNotFound, []int{404, 410}},
		{opContent, KindNotFound, []int{404, 410}},
		{opDelete, KindNotFound, []int{404, 410}},
		{every, KindUnavailable, []int{408, 500, 501, 502, 503, 504, 599}},
		{OpCreate, KindInProgress, []int{409, 425}},
		{opContent, KindContentNotReady, []int{409, 425}},
		{opQuote, KindInputsTooLarge, []int{413}},
		{OpCreate, KindInputsTooLarge, []int{413}},
		{opContent, KindOutOfRange, []int{416}},
		{every, KindRateLimited, []int{429}},
	} {
		for _, status := range same.statuses {
			rows = append(rows, statusRow{same.op, status, "", same.want})
		}
	}
	rows = append(rows, []statusRow{
		{opQuote, 404, `{"code":"MODEL_NOT_FOUND"}`, KindNotFound},
		{OpCreate, 404, `{"code":"MODEL_NOT_FOUND"}`, KindNotFound},
		{opContent, 404, `{"code":"NO_CONTENT"}`, KindNoContent},
		{OpCreate, 409, `{"code":"IN_PROGRESS"}`, KindInProgress},
		{every, 409, `{"code":"API_KEY_DAILY_CAP"}`, KindDailyCap},
		{OpCreate, 409, `{"error":{"code":"API_KEY_DAILY_CAP","message":"x"}}`, KindDailyCap},
		{OpCreate, 409, `{"error":"API_KEY_DAILY_CAP"}`, KindDailyCap},
		{OpCreate, 409, `{"code":"CONFLICT","details":{"reason":"API_KEY_DAILY_CAP"}}`, KindInProgress},
		{OpCreate, 409, `{"code":"CONFLICT","data":{"code":"API_KEY_DAILY_CAP"}}`, KindInProgress},
		{OpCreate, 409, `{"data":{"code":"API_KEY_DAILY_CAP"}}`, KindInProgress},
		{OpCreate, 409, `{"name":"API_KEY_DAILY_CAP"}`, KindInProgress},
		{OpCreate, 409, `{"reason":"API_KEY_DAILY_CAP"}`, KindInProgress},
		{OpCreate, 409, `{"error":"no answer for: sunset/API_KEY_DAILY_CAP"}`, KindInProgress},
		{OpCreate, 409, `{"error":"sunset/API_KEY_DAILY_CAP"}`, KindInProgress},
		{OpCreate, 409, `{"type":"no answer for /API_KEY_DAILY_CAP"}`, KindInProgress},
		{OpCreate, 409, `{"type":"API_KEY_DAILY_CAP"}`, KindDailyCap},
		{OpCreate, 408, `{"code":"API_KEY_DAILY_CAP"}`, KindOutcomeUnknown},
		{OpCreate, 425, `{"code":"IDEMPOTENCY_KEY_REUSED"}`, KindInProgress},
		{OpCreate, 409, `{"errorType":"API_KEY_DAILY_CAP"}`, KindDailyCap},
		{OpCreate, 409, `{"code":"apiKeyDailyCap"}`, KindDailyCap},
		{OpCreate, 409, `API_KEY_DAILY_CAP: come back tomorrow`, KindDailyCap},
		{OpCreate, 409, `API_KEY_DAILY_CAP`, KindDailyCap},
		{OpCreate, 409, `<h1>API_KEY_DAILY_CAP</h1>`, KindInProgress},
		{OpCreate, 409, `{"message":"busy","inputs":{"prompt":"API_KEY_DAILY_CAP"}}`, KindInProgress},
		{OpCreate, 409, `{"message":"the prompt API_KEY_DAILY_CAP is under way"}`, KindInProgress},
		{OpCreate, 409, `the prompt API_KEY_DAILY_CAP is under way`, KindInProgress},
		{OpCreate, 400, `{"message":"no IDEMPOTENCY_KEY_REUSED please"}`, KindInvalidInput},
		{OpCreate, 429, `{"code":"API_KEY_DAILY_CAP"}`, KindDailyCap},
		{OpCreate, 409, `{"code":"IDEMPOTENCY_KEY_REUSED"}`, KindKeyReused},
		{OpCreate, 422, `{"code":"IDEMPOTENCY_KEY_REUSED"}`, KindKeyReused},
		{OpCreate, 400, `{"code":"idempotency-key-mismatch"}`, KindKeyReused},
		{OpCreate, 422, `{"code":"IDEMPOTENCY_CONFLICT"}`, KindKeyReused},
		{OpCreate, 400, `{"error":{"type":"idempotency_error"}}`, KindKeyReused},
		{OpCreate, 422, `{"type":"https://x/errors/IDEMPOTENCY_KEY_REUSED"}`, KindKeyReused},
		{OpCreate, 422, `IDEMPOTENCY_KEY_REUSED: x`, KindKeyReused},
	}...)
	own := func(op string, row statusRow) bool {
		return slices.ContainsFunc(rows, func(r statusRow) bool { return r.op == op && r.status == row.status && r.body == row.body })
	}
	for _, row := range rows {
		for op, call := range calls {
			if row.op != op && (row.op != every || own(op, row)) {
				continue
			}
			t.Run(fmt.Sprint(op, row.status, row.body), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					err := call(t.Context(), newTestClient(t, answeringTransport(row.status, "text/plain", row.body)))
					e := asError(t, err)
					if e.Kind != row.want || e.Op != op || e.Status != row.status {
						t.Errorf("got %+v, want the kind %v", e, row.want)
					}
				})
			})
		}
	}
}

func TestRedirectOrNotFoundErrorSuggestsCheckingBaseURL(t *testing.T) {
	for _, status := range []int{302, 404} {
		err := calls[opModels](t.Context(), newTestClient(t, answeringTransport(status, "text/html", `<html>`)))
		if e := asError(t, err); !strings.Contains(e.Message, "check the base URL") {
			t.Errorf("%d: got %q", status, e.Message)
		}
	}
}

func TestUnreadableOrderResponseLeavesOutcomeUnknown(t *testing.T) {
	for _, status := range []int{200, 201, 202, 204, 206} {
		for _, body := range []string{``, `{}`, `<html>`, `{"id":null,"status":"queued"}`, `{"id":"g`} {
			err := calls[OpCreate](t.Context(), newTestClient(t, answeringTransport(status, "application/json", body)))
			if e := asError(t, err); e.Kind != KindOutcomeUnknown || e.Err == nil || e.Status != status {
				t.Errorf("%d %s: got %+v", status, body, e)
			}
		}
	}
}

func TestErrorResponseIsParsedInEveryFormat(t *testing.T) {
	long := strings.Repeat("ü", 40_000)
	for name, c := range map[string]struct{ contentType, body, code, message string }{
		"flat":                        {"application/json", `{"code":"BAD","message":"not so"}`, "BAD", "not so"},
		"nested in error":             {"application/json", `{"error":{"code":"BAD","message":"not so"}}`, "BAD", "not so"},
		"error as a sentence":         {"application/json", `{"error":"not so"}`, "", "not so"},
		"error as a code":             {"application/json", `{"error":"invalid_request","error_description":"not so"}`, "invalid_request", "not so"},
		"error as a single word":      {"application/json", `{"error":"nope"}`, "nope", ""},
		"problem details":             {"application/problem+json", `{"type":"about:blank","title":"Bad Request","status":400,"detail":"not so","code":"BAD"}`, "BAD", "not so"},
		"problem details with a type": {"application/problem+json", `{"type":"https://x/problems/out-of-ink","title":"not so"}`, "out-of-ink", "not so"},
		"numeric codes":               {"application/json", `{"code":400,"error":{"code":17,"message":"not so"}}`, "", "not so"},
		"a list of errors":            {"application/json", `{"errors":[{"message":"not so"}]}`, "", ""},
		"one invalid field":           {"application/json", `{"errors":[{"field":"prompt","message":"not so"}]}`, "", "not so"},
		"a JSON string":               {"application/json", `"not so"`, "", "not so"},
		"plain text":                  {"text/plain", "not so\n", "", "not so"},
		"plain text with a code":      {"text/plain; charset=utf-8", "BAD_INK: not so\n", "BAD_INK", "not so"},
		"HTML":                        {"text/html", `<html><h1>not so</h1></html>`, "", ""},
		"HTML sent as plain text":     {"text/plain", ` <!DOCTYPE html><h1>not so</h1>`, "", ""},
		"HTML sent as JSON":           {"application/json", `<html>not so</html>`, "", ""},
		"HTML in JSON":                {"application/json", `{"message":"see <html><body>x</body>"}`, "", ""},
		"binary":                      {"application/octet-stream", "\x00\x01\x02", "", ""},
		"empty body":                  {"", ``, "", ""},
		"wrong types":                 {"application/json", `{"code":{},"message":[],"error":null,"details":7}`, "", ""},
		"control characters":          {"application/json", `{"message":"not\r\nso\u0000"}`, "", "not  so "},
		"64 KB":                       {"application/json", `{"message":"` + long[:60_000] + `"}`, "", long[:1024]},
		"over the read limit":         {"text/plain", long, "", ""},
		"limit inside a character":    {"text/plain", "x" + long[:2000], "", "x" + long[:1022]},
	} {
		t.Run(name, func(t *testing.T) {
			err := calls[opQuote](t.Context(), newTestClient(t, answeringTransport(400, c.contentType, c.body)))
			if e := asError(t, err); e.Code != c.code || e.Message != c.message {
				t.Errorf("got %q %.80q, want %q %.80q", e.Code, e.Message, c.code, c.message)
			}
		})
	}
}

func TestInvalidFieldIsFoundInEveryErrorFormat(t *testing.T) {
	prompt := []Violation{{Field: "inputs.prompt"}}
	long := []Violation{{Field: "inputs.prompt", Description: "too long"}}
	for body, want := range map[string][]Violation{
		`{"details":{"field":"prompt"}}`:                                                prompt,
		`{"details":{"field":"inputs.prompt"}}`:                                         prompt,
		`{"error":{"code":"X","message":"y","details":{"field":"prompt"}}}`:             prompt,
		`{"field":"prompt","message":"too long"}`:                                       long,
		`{"error":{"param":"prompt","message":"too long"}}`:                             long,
		`{"details":{"fields":["prompt"]}}`:                                             prompt,
		`{"details":{"fields":{"prompt":"too long"}}}`:                                  long,
		`{"details":{"fields":[{"name":"prompt","reason":"too long"}]}}`:                long,
		`{"details":[{"field":"prompt","message":"too long"}]}`:                         long,
		`{"details":[{"path":["inputs","prompt"],"message":"too long"}]}`:               long,
		`{"details":{"prompt":"too long"}}`:                                             long,
		`{"details":{"prompt":["too long","and too late"]}}`:                            long,
		`{"details":{"prompt":{"message":"too long"}}}`:                                 long,
		`{"errors":[{"param":"prompt","msg":"too long"}]}`:                              long,
		`{"errors":{"prompt":["too long"]}}`:                                            long,
		`{"fieldErrors":{"prompt":"too long"}}`:                                         long,
		`{"invalid-params":[{"name":"prompt","reason":"too long"}]}`:                    long,
		`{"detail":[{"loc":["body","inputs","prompt"],"msg":"too long"}]}`:              long,
		`{"issues":[{"path":["inputs","prompt"],"message":"too long"}]}`:                long,
		`{"violations":[{"property":"inputs[prompt]","message":"too long"}]}`:           long,
		`{"errors":[{"pointer":"/inputs/prompt","detail":"too long"}]}`:                 long,
		`{"errors":[{"path":"$.inputs.prompt","message":"too long"}]}`:                  long,
		`{"errors":[{"field":"prompt","message":"too long"},{"field":"prompt"}]}`:       long,
		`{"details":{"field":"modelId"}}`:                                               {{Field: "model_id"}},
		`{"details":{"field":"model"}}`:                                                 {{Field: "model_id"}},
		`{"details":{"field":"Idempotency-Key"}}`:                                       {{Field: "idempotency_key"}},
		`{"details":{"field":"inputs"}}`:                                                {{Field: "inputs"}},
		`{"details":{"field":"inputs.palette[0]"}}`:                                     {{Field: "inputs.palette[0]"}},
		`{"details":{"field":"inputs.frame.percent"}}`:                                  {{Field: "inputs.frame.percent"}},
		`{"errors":[{"field":"a","message":"x"},{"field":"b","message":"y"}]}`:          {{"inputs.a", "x"}, {"inputs.b", "y"}},
		`{"details":{"requestId":"r","hint":"look"}}`:                                   nil,
		`{"details":"prompt is too long"}`:                                              nil,
		`{"details":["prompt is too long"]}`:                                            nil,
		`{"name":"ValidationError","path":"/quote","message":"no"}`:                     nil,
		`{"details":{"field":{"a":1}}}`:                                                 nil,
		`{"details":{"field":""}}`:                                                      nil,
		`{"message":"Invalid field"}`:                                                   nil,
		`[{"field":"prompt"}]`:                                                          nil,
		`{"details":` + strings.Repeat(`[`, 50) + `"x"` + strings.Repeat(`]`, 50) + `}`: nil,
	} {
		err := calls[opQuote](t.Context(), newTestClient(t, answeringTransport(400, "application/json", body)))
		if diff := cmp.Diff(want, asError(t, err).Violations); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestViolationsAreLimitedInNumberAndLength(t *testing.T) {
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprintf(`{"field":"f%d%s","message":"%s"}`, i, strings.Repeat("y", 300), strings.Repeat("x", 300)))
	}
	err := calls[opQuote](t.Context(), newTestClient(t, answeringTransport(422, "application/json", "["+strings.Join(list, ",")+"]")))
	if got := asError(t, err).Violations; len(got) != 0 {
		t.Errorf("a bare list: got %d violations, want 0", len(got))
	}
	err = calls[opQuote](t.Context(), newTestClient(t, answeringTransport(422, "application/json", `{"errors":[`+strings.Join(list, ",")+"]}")))
	e := asError(t, err)
	if len(e.Violations) != maxViolations {
		t.Errorf("got %d violations, want %d", len(e.Violations), maxViolations)
	}
	for _, v := range e.Violations {
		if len(v.Field) > maxViolationText || len(v.Description) > maxViolationText {
			t.Errorf("got a violation with a field of %d bytes and a description of %d bytes", len(v.Field), len(v.Description))
		}
	}
}

func TestInvalidFieldNameDependsOnRoute(t *testing.T) {
	for op, want := range map[string]string{opModel: "model_id", opGeneration: "generation_id", opQuote: "inputs.id"} {
		err := calls[op](t.Context(), newTestClient(t, answeringTransport(400, "application/json", `{"details":{"field":"id"}}`)))
		if got := asError(t, err).Violations; len(got) != 1 || got[0].Field != want {
			t.Errorf("%s: got %+v, want %s", op, got, want)
		}
	}
}

func FuzzReadError(f *testing.F) {
	f.Add("application/json", `{"error":{"code":"X","message":"m","details":{"fields":{"a":["b"]}}}}`)
	f.Add("application/json", `{"detail":[{"loc":["body","inputs",0],"msg":"x"}]}`)
	f.Add("text/plain", `API_KEY_DAILY_CAP: no`)
	f.Add("text/plain", "\"\xf8\xff\"")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		said := readErrorBody(OpCreate, contentType, []byte(body), newRedactor(testKey))
		all := said.code + said.message
		for _, v := range said.violations {
			all += v.Field + v.Description
		}
		if len(said.message) > maxText || len(said.violations) > maxViolations || strings.Contains(asciiLower(all), asciiLower(testKey)) {
			t.Errorf("got %+v", said)
		}
	})
}
