package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestTheLimitsOfRequestsHoldAtTheLimitAndPastIt(t *testing.T) { // faults I2, I4, I5
	for name, probe := range map[string]func(*testing.T, *stack, caller){
		"nesting": probeDepth, "values": probeValues, "ids": probeIDs, "idempotency key": probeKey, "labels": probeLabels,
		"page token": probeToken, "many ids": probeManyIDs, "wait": probeWait, "heartbeats": probePulse,
	} {
		t.Run(name, func(t *testing.T) { overBoth(t, probe) })
	}
}

// edge sends a request at the limit, which must pass validation, and a request past the limit, which must be rejected as
// invalid.
func edge(t *testing.T, c caller, method string, at, past proto.Message) {
	t.Helper()
	call := func(req proto.Message) error { return c.call(t.Context(), method, req, &easelv1.GetAccountResponse{}) }
	switch err := call(at); {
	case err == nil, strings.Contains(err.Error(), "unknown field"): // a call that passed validation may return any response
	default:
		if st := statusOf(t, err); strings.Contains(fmt.Sprint(st.Details()), "INVALID_REQUEST") {
			t.Errorf("%s at the limit: %v", method, err)
		}
	}
	wantStatus(t, call(past), codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest)
}

func TestInputsHaveTheLimitOfTheSetting(t *testing.T) {
	for _, limit := range []int{inputsLimit, 5 * inputsLimit} { // the second limit is larger than the maximum size of a response
		t.Run(inBytes(limit), func(t *testing.T) {
			overBoth(t, func(t *testing.T, _ *stack, c caller) { probeInputs(t, c, limit) }, func(o *options) {
				o.service.MaxInputs, o.server.Limits.MaxInputs = limit, limit
				o.wrap = func(http.RoundTripper) http.RoundTripper { return handled{http.HandlerFunc(echoOrder)} }
			})
		})
	}
}

// probeInputs sends orders with inputs of the maximum size, as a Struct and as JSON. Then it sends orders that are one
// byte larger.
func probeInputs(t *testing.T, c caller, limit int) {
	t.Helper()
	long := strings.Repeat("x", limit-len(`{"prompt":""}`))
	for n, order := range []*easelv1.CreateGenerationRequest{
		{InputsJson: `{"prompt":"` + long + `"}`},
		{Inputs: inputs(t, map[string]any{"prompt": long})},
		{InputsJson: `{"prompt":"` + long + `x"}`},
		{Inputs: inputs(t, map[string]any{"prompt": long + "x"})},
	} {
		order.ModelId, order.IdempotencyKey = text, fmt.Sprint("key-", n)
		resp := &easelv1.CreateGenerationResponse{}
		err := c.call(t.Context(), "GenerationService/CreateGeneration", order, resp)
		if n > 1 {
			st := wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest)
			if !strings.HasPrefix(st.Message(), "inputs") || !strings.Contains(st.Message(), fmt.Sprintf("at most %d bytes as JSON (EASEL_MAX_INPUTS", limit)) {
				t.Errorf("the message is %q", st.Message())
			}
		} else if err != nil || resp.GetGeneration().GetGenerationId() != fmt.Sprint("gen_key-", n) {
			t.Errorf("inputs of %d bytes returned %v", limit, err)
		}
	}
}

// echoOrder responds to an order of any size with the order's inputs.
func echoOrder(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a truncated body would make the response invalid JSON
	_, _ = io.WriteString(w, `{"id":"gen_`+r.Header.Get("Idempotency-Key")+`","status":"queued",`+strings.TrimPrefix(string(body), "{"))
}

func probeDepth(t *testing.T, s *stack, c caller) {
	quote := func(n int) *easelv1.QuoteGenerationRequest {
		return &easelv1.QuoteGenerationRequest{ModelId: text, InputsJson: strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)}
	}
	edge(t, c, "GenerationService/QuoteGeneration", quote(depthLimit), quote(depthLimit+1))
	if n := s.sandbox.Requests()["POST /quote"]; n != 1 {
		t.Errorf("%d quotes reached the catalog", n)
	}
}

func probeValues(t *testing.T, _ *stack, c caller) {
	quote := func(n int) *easelv1.QuoteGenerationRequest {
		numbers := make([]any, n-2)
		return &easelv1.QuoteGenerationRequest{ModelId: text, Inputs: inputs(t, map[string]any{"prompt": "x", "seeds": numbers})}
	}
	edge(t, c, "GenerationService/QuoteGeneration", quote(valuesLimit), quote(valuesLimit+1))
}

func probeIDs(t *testing.T, _ *stack, c caller) {
	at := strings.Repeat("a", idLimit)
	edge(t, c, "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: at}, &easelv1.GetModelRequest{ModelId: at + "a"})
	edge(t, c, "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: at}, &easelv1.GetGenerationRequest{GenerationId: at + "a"})
}

func probeKey(t *testing.T, s *stack, c caller) {
	order := func(n int) *easelv1.CreateGenerationRequest {
		return &easelv1.CreateGenerationRequest{ModelId: text, InputsJson: `{"prompt":"x"}`, IdempotencyKey: strings.Repeat("k", n)}
	}
	edge(t, c, "GenerationService/CreateGeneration", order(keyLimit), order(keyLimit+1))
	if n := s.sandbox.Requests()["POST /generations"]; n != 1 {
		t.Errorf("%d orders reached the catalog", n)
	}
}

func probeLabels(t *testing.T, _ *stack, c caller) {
	order := func(many, name, value int) *easelv1.CreateGenerationRequest {
		labels := map[string]string{"a" + strings.Repeat("b", name-1): strings.Repeat("v", value)}
		for n := len(labels); n < many; n++ {
			labels[fmt.Sprint("c", n)] = "v"
		}
		return &easelv1.CreateGenerationRequest{ModelId: text, InputsJson: `{"prompt":"x"}`, IdempotencyKey: "k", Labels: labels}
	}
	at := order(labelsLimit, nameLimit, valueLimit)
	for _, past := range []*easelv1.CreateGenerationRequest{order(labelsLimit+1, 1, 1), order(1, nameLimit+1, 1), order(1, 1, valueLimit+1)} {
		edge(t, c, "GenerationService/CreateGeneration", at, past)
	}
}

func probeToken(t *testing.T, _ *stack, c caller) {
	// At the limit, an unknown token is rejected too, but with another message.
	refusal := func(n int) string {
		err := c.call(t.Context(), "ModelService/ListModels", &easelv1.ListModelsRequest{PageToken: strings.Repeat("t", n)}, &easelv1.ListModelsResponse{})
		return wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest).Message()
	}
	if at, past := refusal(tokenLimit), refusal(tokenLimit+1); at == past || !strings.Contains(past, fmt.Sprint(tokenLimit)) {
		t.Errorf("at the limit %q, past it %q", at, past)
	}
}

func TestAPageHasAtMostAThousandRenders(t *testing.T) { // fault I5
	overBoth(t, func(t *testing.T, _ *stack, c caller) {
		for _, size := range []int32{pageLimit, pageLimit + 1} {
			resp := &easelv1.ListGenerationsResponse{}
			err := c.call(t.Context(), "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{PageSize: size}, resp)
			if err != nil || len(resp.GetGenerations()) != pageLimit || resp.GetNextPageToken() == "" {
				t.Errorf("a page of %d has %d renders, and %v", size, len(resp.GetGenerations()), err)
			}
		}
	}, func(o *options) {
		o.wrap = func(http.RoundTripper) http.RoundTripper { return handled{http.HandlerFunc(listLong)} }
	})
}

// listLong responds with more generations than fit on a page.
func listLong(w http.ResponseWriter, _ *http.Request) {
	records := make([]string, pageLimit+1)
	for n := range records {
		records[n] = fmt.Sprintf(`{"id":"gen_%d","modelId":"m","status":"queued"}`, n)
	}
	_, _ = io.WriteString(w, "["+strings.Join(records, ",")+"]")
}

func probeManyIDs(t *testing.T, _ *stack, c caller) {
	watch := func(n int) *easelv1.WatchGenerationsRequest {
		req := &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(time.Minute)}
		for i := range n {
			req.GenerationIds = append(req.GenerationIds, fmt.Sprintf("g%d", i))
		}
		return req
	}
	if err := c.watchMany(t.Context(), watch(idsLimit), oneMessage); err != nil {
		t.Errorf("%d ids: %v", idsLimit, err)
	}
	wantStatus(t, c.watchMany(t.Context(), watch(idsLimit+1), oneMessage), codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest)
}

func probeWait(t *testing.T, _ *stack, c caller) {
	wait := func(d time.Duration) *easelv1.WaitGenerationRequest {
		return &easelv1.WaitGenerationRequest{GenerationId: "unknown", Timeout: durationpb.New(d)}
	}
	edge(t, c, "GenerationService/WaitGeneration", wait(waitLimit), wait(waitLimit+1))
	download := func(d time.Duration) error {
		return c.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: "unknown", WaitTimeout: durationpb.New(d)}, io.Discard)
	}
	wantStatus(t, download(waitLimit), codes.NotFound, "GENERATION_NOT_FOUND", http.StatusNotFound)
	wantStatus(t, download(waitLimit+1), codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest)
}

func probePulse(t *testing.T, _ *stack, c caller) {
	watch := func(d time.Duration) error {
		return c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: "unknown", HeartbeatInterval: durationpb.New(d)},
			func(*easelv1.WatchGenerationResponse) {})
	}
	for _, at := range []time.Duration{fastestPulse, slowestPulse} {
		wantStatus(t, watch(at), codes.NotFound, "GENERATION_NOT_FOUND", http.StatusNotFound)
	}
	for _, past := range []time.Duration{fastestPulse - 1, slowestPulse + 1} {
		wantStatus(t, watch(past), codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest)
	}
}
