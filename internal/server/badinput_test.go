package server_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// badInput is a request that breaks a rule of the contract.
type badInput struct {
	name   string
	method string
	req    proto.Message
	fields []string // names of the fields that the error must contain
}

// badInputs contains invalid requests. Together they violate each rule of the contract at least once. The server must not
// forward any of them to the catalog.
var badInputs = []badInput{
	{"a generation id with a slash", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: "a/b"}, []string{"generation_id"}},
	{"a generation id with a path traversal", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: "../me"}, []string{"generation_id"}},
	{"a generation id with a backslash", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: `a\b`}, []string{"generation_id"}},
	{"a model id with a line break", "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: "a\r\nb"}, []string{"model_id"}},
	{"a model id with a NUL", "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: "a\x00b"}, []string{"model_id"}},
	{"a page size below 0", "ModelService/ListModels", &easelv1.ListModelsRequest{PageSize: -1}, []string{"page_size"}},
	{"a forged page token", "ModelService/ListModels", &easelv1.ListModelsRequest{PageToken: "Zm9yZ2Vk"}, []string{"page_token"}},
	{"a page token of another list", "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{PageToken: "bW9kZWxzOmE"}, []string{"page_token"}},

	{"a quote without a model", "GenerationService/QuoteGeneration", &easelv1.QuoteGenerationRequest{InputsJson: "{}"}, []string{"model_id"}},
	{"a quote without inputs", "GenerationService/QuoteGeneration", &easelv1.QuoteGenerationRequest{ModelId: "m"}, []string{"inputs"}},
	{"a quote with inputs and inputs_json", "GenerationService/QuoteGeneration", &easelv1.QuoteGenerationRequest{ModelId: "m", Inputs: &structpb.Struct{}, InputsJson: "{}"}, []string{"inputs"}},
	{"an order without a key", "GenerationService/CreateGeneration", &easelv1.CreateGenerationRequest{ModelId: "m", InputsJson: "{}"}, []string{"idempotency_key"}},
	{"an order without a key and a model", "GenerationService/CreateGeneration", &easelv1.CreateGenerationRequest{InputsJson: "{}"}, []string{"idempotency_key", "model_id"}},
	{"a key with a space", "GenerationService/CreateGeneration", orderWith(func(r *easelv1.CreateGenerationRequest) { r.IdempotencyKey = "a b" }), []string{"idempotency_key"}},
	{"a key with a control character", "GenerationService/CreateGeneration", orderWith(func(r *easelv1.CreateGenerationRequest) { r.IdempotencyKey = "a\nb" }), []string{"idempotency_key"}},
	{"a label name with a capital letter", "GenerationService/CreateGeneration", orderWith(func(r *easelv1.CreateGenerationRequest) { r.Labels = map[string]string{"Job": "7"} }), []string{`labels["Job"]`}},
	{"a label with a value of 257 bytes", "GenerationService/CreateGeneration", orderWith(func(r *easelv1.CreateGenerationRequest) {
		r.Labels = map[string]string{"job": strings.Repeat("é", 128) + "x"}
	}), []string{`labels["job"]`}},
	{"a label with a NUL", "GenerationService/CreateGeneration", orderWith(func(r *easelv1.CreateGenerationRequest) {
		r.Labels = map[string]string{"job": "7\x00"}
	}), []string{`labels["job"]`}},
	{"a filter by a label with a NUL", "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{Labels: map[string]string{"job": "\x00"}}}, []string{`filter.labels["job"]`}},
	{"a filter by a model with a NUL", "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{ModelId: "a\x00b"}}, []string{"filter.model_id"}},
	{"a filter by an owner with a NUL", "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{Owner: "\x00a"}}, []string{"filter.owner"}},
	{"a page token with a NUL", "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{PageToken: "Z2VuZXJhdGlvbnM6AA"}, []string{"page_token"}},
	{"a filter by the unspecified state", "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{States: []easelv1.State{0}}}, []string{"filter.states[0]"}},
	{"a filter with a repeated state", "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{States: []easelv1.State{1, 1}}}, []string{"filter.states"}},
	{"a filter by an invalid label name", "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{Labels: map[string]string{"7": "job"}}}, []string{`filter.labels["7"]`}},
	{"usage by the unspecified dimension", "AccountService/ListUsage", &easelv1.ListUsageRequest{GroupBy: []easelv1.UsageDimension{0}}, []string{"group_by[0]"}},
	{"usage by a repeated dimension", "AccountService/ListUsage", &easelv1.ListUsageRequest{GroupBy: []easelv1.UsageDimension{1, 1}}, []string{"group_by"}},
	{"usage by a label without its name", "AccountService/ListUsage", &easelv1.ListUsageRequest{GroupBy: []easelv1.UsageDimension{5}}, []string{"label_name"}},
	{"usage with a label name but no label dimension", "AccountService/ListUsage", &easelv1.ListUsageRequest{LabelName: "job"}, []string{"label_name"}},
	{"usage that ends before it begins", "AccountService/ListUsage", &easelv1.ListUsageRequest{StartTime: &timestamppb.Timestamp{Seconds: 9}, EndTime: &timestamppb.Timestamp{Seconds: 8}}, []string{"end_time"}},
	{"a cost limit below 0", "GenerationService/CreateGeneration", orderWith(func(r *easelv1.CreateGenerationRequest) { r.MaxCostCents = proto.Int64(-1) }), []string{"max_cost_cents"}},

	{"inputs_json that is not JSON", "GenerationService/CreateGeneration", orderJSON(`{"a":`), []string{"inputs_json"}},
	{"inputs_json that is an array", "GenerationService/CreateGeneration", orderJSON(`[]`), []string{"inputs_json"}},
	{"inputs_json with a duplicate member", "GenerationService/CreateGeneration", orderJSON(`{"a":1,"a":2}`), []string{"inputs_json"}},
	{"inputs_json with a duplicate nested member", "GenerationService/CreateGeneration", orderJSON(`{"o":[{"a":1,"a":2}]}`), []string{"inputs_json"}},
	{"inputs_json with a second value", "GenerationService/CreateGeneration", orderJSON(`{} {}`), []string{"inputs_json"}},
	{"inputs_json of arrays nested 10,000 deep", "GenerationService/CreateGeneration", orderJSON(`{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}"), []string{"inputs_json"}},
	{"inputs_json with NaN", "GenerationService/CreateGeneration", orderJSON(`{"a":NaN}`), []string{"inputs_json"}},
	{"an integer beyond 2^53 in a Struct", "GenerationService/CreateGeneration", orderStruct("n", structpb.NewNumberValue(9007199254740992)), []string{"inputs.n"}},
	{"an integer beyond 2^53 in a list", "GenerationService/CreateGeneration", orderStruct("n", structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(1), structpb.NewNumberValue(-1e300)}})), []string{"inputs.n[1]"}},

	{"a generation id that is a space", "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: " "}, []string{"generation_id"}},
	{"a generation id with a line break", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: "a\r\nb"}, []string{"generation_id"}},
	{"a generation id with a NUL", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: "a\x00"}, []string{"generation_id"}},
	{"a staleness below 0", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: "g", MaxStaleness: durationpb.New(-1)}, []string{"max_staleness"}},
	{"a wait with a negative timeout", "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: "g", Timeout: durationpb.New(-1)}, []string{"timeout"}},
	{"a wait with an unknown until value", "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: "g", Until: 9}, []string{"until"}},
	{"a delete of an id with a space", "GenerationService/DeleteGeneration", &easelv1.DeleteGenerationRequest{GenerationId: "a b"}, []string{"generation_id"}},

	{"a watch with an etag of 10 KB", "GenerationService/WatchGeneration", &easelv1.WatchGenerationRequest{GenerationId: "g", KnownEtag: strings.Repeat("e", 10<<10)}, []string{"known_etag"}},
	{"a watch of an id with a space", "GenerationService/WatchGeneration", &easelv1.WatchGenerationRequest{GenerationId: "a b"}, []string{"generation_id"}},
	{"a watch with an unknown until value", "GenerationService/WatchGeneration", &easelv1.WatchGenerationRequest{GenerationId: "g", Until: 77}, []string{"until"}},
	{"a download with a wait timeout that is too long", "GenerationService/DownloadGeneration", &easelv1.DownloadGenerationRequest{GenerationId: "g", WaitTimeout: &durationpb.Duration{Seconds: 601}}, []string{"wait_timeout"}},
	{"a download of an id with a tab", "GenerationService/DownloadGeneration", &easelv1.DownloadGenerationRequest{GenerationId: "a\tb"}, []string{"generation_id"}},
	{"a download with a negative wait timeout", "GenerationService/DownloadGeneration", &easelv1.DownloadGenerationRequest{GenerationId: "g", WaitTimeout: durationpb.New(-1)}, []string{"wait_timeout"}},
}

// inputsOfGRPC contains invalid requests that can be sent only over gRPC.
var inputsOfGRPC = []badInput{
	{"a number that is NaN", "GenerationService/CreateGeneration", orderStruct("n", structpb.NewNumberValue(math.NaN())), []string{"inputs.n"}},
	{"an infinite number", "GenerationService/QuoteGeneration", &easelv1.QuoteGenerationRequest{ModelId: "m", Inputs: &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(math.Inf(1))}}}, []string{"inputs.n"}},
	{"a value without a kind", "GenerationService/CreateGeneration", orderStruct("n", &structpb.Value{}), []string{"inputs.n"}},
	{"a model id that is empty", "ModelService/GetModel", &easelv1.GetModelRequest{}, []string{"model_id"}},
	{"an id that is a dot", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: "."}, []string{"generation_id"}},
	{"an id that is two dots", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: ".."}, []string{"generation_id"}},
	{"an empty id", "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{}, []string{"generation_id"}},
	{"an offset below 0", "GenerationService/DownloadGeneration", &easelv1.DownloadGenerationRequest{GenerationId: "g", ReadOffset: -1}, []string{"read_offset"}},
	{"a limit below 0", "GenerationService/DownloadGeneration", &easelv1.DownloadGenerationRequest{GenerationId: "g", ReadLimit: -1}, []string{"read_limit"}},
	{"an etag that is too long", "GenerationService/DownloadGeneration", &easelv1.DownloadGenerationRequest{GenerationId: "g", Etag: strings.Repeat("e", 257)}, []string{"etag"}},
}

func orderWith(change func(*easelv1.CreateGenerationRequest)) *easelv1.CreateGenerationRequest {
	req := &easelv1.CreateGenerationRequest{ModelId: "m", InputsJson: "{}", IdempotencyKey: "k"}
	change(req)
	return req
}

func orderJSON(text string) *easelv1.CreateGenerationRequest {
	return orderWith(func(r *easelv1.CreateGenerationRequest) { r.InputsJson = text })
}

func orderStruct(name string, v *structpb.Value) *easelv1.CreateGenerationRequest {
	return orderWith(func(r *easelv1.CreateGenerationRequest) {
		r.InputsJson, r.Inputs = "", &structpb.Struct{Fields: map[string]*structpb.Value{name: v}}
	})
}

func TestInvalidRequestsAreRejectedWithFieldViolations(t *testing.T) {
	t.Parallel()
	overBothOnPorts(t, func(t *testing.T, s *stack, c caller) {
		inputs := badInputs
		if _, grpc := c.(grpcCaller); grpc {
			inputs = slices.Concat(inputs, inputsOfGRPC)
		}
		for _, bad := range inputs {
			t.Run(bad.name, func(t *testing.T) {
				err := callAny(t.Context(), c, bad.method, bad.req, &easelv1.GetAccountResponse{})
				st := wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400)
				wantFields(t, st, bad.fields...)
			})
		}
		if n := s.sandbox.Requests()["POST /generations"] + s.sandbox.Requests()["GET /generations/{id}"]; n != 0 {
			t.Errorf("%d bad requests reached the catalog", n)
		}
	})
}

func TestGenerationIDsCannotChangeUpstreamRoute(t *testing.T) {
	t.Parallel()
	overBothOnPorts(t, func(t *testing.T, s *stack, c caller) {
		for _, id := range []string{"%2f", "%2e%2e", "..%2fme", "...", "a?b", "a#b", "a;b", "a&b=c", "x:wait", "x:watch", "content"} {
			_, err := get(t, c, id)
			wantStatus(t, err, codes.NotFound, "GENERATION_NOT_FOUND", 404)
		}
		for route, n := range s.sandbox.Requests() {
			if n > 0 && route != "GET /generations/{id}" && route != "GET /me" { // only reads of a generation and the verification of the API key are allowed
				t.Errorf("got %d requests to %s, want none", n, route)
			}
		}
	})
}
