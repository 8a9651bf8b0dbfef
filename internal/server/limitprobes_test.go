package server_test

import (
	"context"
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
	"github.com/easel-grpc/easel/internal/server"
)

// A request with a value at its limit must pass validation. A request with a value above the limit must be rejected as
// invalid.
func TestRequestsAboveLimitsAreRejected(t *testing.T) {
	id := strings.Repeat("a", idLimit)
	nested := func(depth int) proto.Message {
		return &easelv1.QuoteGenerationRequest{ModelId: text, InputsJson: strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)}
	}
	values := func(n int) proto.Message {
		return &easelv1.QuoteGenerationRequest{ModelId: text, Inputs: inputs(t, map[string]any{"prompt": "x", "seeds": make([]any, n-2)})}
	}
	labels := func(many, name, value int) proto.Message {
		all := map[string]string{"a" + strings.Repeat("b", name-1): strings.Repeat("v", value)}
		for n := len(all); n < many; n++ {
			all[fmt.Sprint("c", n)] = "v"
		}
		return orderWith(func(r *easelv1.CreateGenerationRequest) {
			r.Labels, r.IdempotencyKey = all, fmt.Sprintf("labels-%d-%d-%d", many, name, value)
		})
	}
	keyed := func(n int) proto.Message {
		return orderWith(func(r *easelv1.CreateGenerationRequest) { r.IdempotencyKey = strings.Repeat("k", n) })
	}
	watched := func(n int) proto.Message {
		req := &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(time.Minute)}
		for i := range n {
			req.GenerationIds = append(req.GenerationIds, fmt.Sprintf("g%d", i))
		}
		return req
	}
	waiting := func(d time.Duration) proto.Message {
		return &easelv1.WaitGenerationRequest{GenerationId: "unknown", Timeout: durationpb.New(d)}
	}
	fetched := func(d time.Duration) proto.Message {
		return &easelv1.DownloadGenerationRequest{GenerationId: "unknown", WaitTimeout: durationpb.New(d)}
	}
	beating := func(d time.Duration) proto.Message {
		return &easelv1.WatchGenerationRequest{GenerationId: "unknown", HeartbeatInterval: durationpb.New(d)}
	}
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		sent := map[string]int{} // number of requests at the limit, by method
		for _, row := range []struct {
			method   string
			at, past proto.Message
		}{
			{"GenerationService/QuoteGeneration", nested(depthLimit), nested(depthLimit + 1)},
			{"GenerationService/QuoteGeneration", values(valuesLimit), values(valuesLimit + 1)},
			{"ModelService/GetModel", &easelv1.GetModelRequest{ModelId: id}, &easelv1.GetModelRequest{ModelId: id + "a"}},
			{"GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: id}, &easelv1.GetGenerationRequest{GenerationId: id + "a"}},
			{"GenerationService/CreateGeneration", keyed(keyLimit), keyed(keyLimit + 1)},
			{"GenerationService/CreateGeneration", labels(labelsLimit, nameLimit, valueLimit), labels(labelsLimit+1, 1, 1)},
			{"GenerationService/CreateGeneration", labels(1, nameLimit, 1), labels(1, nameLimit+1, 1)},
			{"GenerationService/CreateGeneration", labels(1, 1, valueLimit), labels(1, 1, valueLimit+1)},
			{"GenerationService/WatchGenerations", watched(idsLimit), watched(idsLimit + 1)},
			{"GenerationService/WaitGeneration", waiting(waitLimit), waiting(waitLimit + 1)},
			{"GenerationService/DownloadGeneration", fetched(waitLimit), fetched(waitLimit + 1)},
			{"GenerationService/WatchGeneration", beating(fastestPulse), beating(fastestPulse - 1)},
			{"GenerationService/WatchGeneration", beating(slowestPulse), beating(slowestPulse + 1)},
		} {
			call := func(req proto.Message) error {
				return callAny(t.Context(), c, row.method, req, &easelv1.GetAccountResponse{})
			}
			sent[row.method]++
			switch err := call(row.at); {
			case err != nil && row.method == "GenerationService/WatchGenerations":
				t.Errorf("a watch of %d IDs: %v", idsLimit, err)
			case err == nil, strings.Contains(err.Error(), "unknown field"): // over REST, a successful response can have fields that GetAccountResponse lacks
			case strings.Contains(fmt.Sprint(statusOf(t, err).Details()), "INVALID_REQUEST"):
				t.Errorf("%s at the limit: %v", row.method, err)
			}
			wantStatus(t, call(row.past), codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest)
		}
		got := s.sandbox.Requests()
		for route, method := range map[string]string{"POST /quote": "GenerationService/QuoteGeneration", "POST /generations": "GenerationService/CreateGeneration"} {
			if got[route] != sent[method] {
				t.Errorf("%d requests %s reached the catalog, want %d", got[route], route, sent[method])
			}
		}
		// An unknown page token is rejected, even if its length is valid. If the token is too long, the message
		// must be different and must contain the limit.
		refusal := func(n int) string {
			err := c.call(t.Context(), "ModelService/ListModels", &easelv1.ListModelsRequest{PageToken: strings.Repeat("t", n)}, &easelv1.ListModelsResponse{})
			return wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest).Message()
		}
		if at, past := refusal(tokenLimit), refusal(tokenLimit+1); at == past || !strings.Contains(past, fmt.Sprint(tokenLimit)) {
			t.Errorf("got the message %q at the limit and %q past it", at, past)
		}
	})
}

func TestMaxInputsSettingLimitsInputs(t *testing.T) {
	for _, limit := range []int{inputsLimit, 5 * inputsLimit} { // inputs of five times the default limit do not fit in a response, but the order must succeed
		t.Run(inBytes(limit), func(t *testing.T) {
			overBoth(t, func(t *testing.T, _ *stack, c caller) { probeInputs(t, c, limit) }, func(o *options) {
				o.service.MaxInputs, o.server.Limits.MaxInputs = limit, limit
				o.wrap = func(http.RoundTripper) http.RoundTripper { return handled{http.HandlerFunc(echoOrder)} }
			})
		})
	}
}

// probeInputs sends orders whose inputs have the maximum size, as a Struct and as JSON. Then it sends orders whose
// inputs are one byte larger.
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
	body, _ := io.ReadAll(r.Body) // a read error is not handled here: a truncated body makes the response invalid JSON, and the test fails
	_, _ = io.WriteString(w, `{"id":"gen_`+r.Header.Get("Idempotency-Key")+`","status":"queued",`+strings.TrimPrefix(string(body), "{"))
}

func TestAPageHasAtMostAThousandRenders(t *testing.T) {
	overBoth(t, func(t *testing.T, _ *stack, c caller) {
		for _, size := range []int32{pageLimit, pageLimit + 1} {
			resp := &easelv1.ListGenerationsResponse{}
			err := c.call(t.Context(), "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{PageSize: size}, resp)
			if err != nil || len(resp.GetGenerations()) != pageLimit || resp.GetNextPageToken() == "" {
				t.Errorf("page size %d: got %d renders and the error %v", size, len(resp.GetGenerations()), err)
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

func TestGenerationsWatchedByOneCallerAreLimited(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ids := make([]string, idsLimit)
		for n := range server.CallerWatched / idsLimit {
			for i := range ids {
				ids[i] = fmt.Sprintf("made-up-%d-%d", n, i)
			}
			if _, err := easelv1.NewGenerationServiceClient(s.grpc).WatchGenerations(grpcCaller{s, s.key}.keyed(ctx), &easelv1.WatchGenerationsRequest{GenerationIds: ids}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all watches are open", func() bool { return s.hub.Stats().Watches == server.CallerWatched/idsLimit })
		more := func() error {
			return c.watchMany(t.Context(), &easelv1.WatchGenerationsRequest{GenerationIds: []string{"one-more"}}, oneMessage)
		}
		wantStatus(t, more(), codes.ResourceExhausted, "STREAM_QUOTA_EXCEEDED", 429)
		cancel()
		eventually(t, "another watch is accepted", func() bool { return more() == nil })
	}, func(o *options) { o.hub.Rate = 2 }) // a low poll rate, so that no generation finishes during the test
}
