package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal/terminaltest"
)

// poisonFields puts terminaltest.Evil into each string field of m and of its nested messages, except in maps. It returns m.
func poisonFields[M proto.Message](m M) M {
	poisonAll(m.ProtoReflect())
	return m
}

func poisonAll(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			m.Mutable(f).List().Append(protoreflect.ValueOfString(terminaltest.Evil))
		case f.Kind() == protoreflect.StringKind && !f.IsMap():
			if oneof := f.ContainingOneof(); oneof == nil || oneof.IsSynthetic() || m.WhichOneof(oneof) == f {
				m.Set(f, protoreflect.ValueOfString(terminaltest.Evil))
			}
		case f.Kind() == protoreflect.MessageKind && !f.IsMap() && !f.IsList() && m.Has(f):
			poisonAll(m.Mutable(f).Message())
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			for j := range m.Get(f).List().Len() {
				poisonAll(m.Get(f).List().Get(j).Message())
			}
		}
	}
}

func evilRender(state easelv1.State, text bool) *easelv1.Generation {
	g := &easelv1.Generation{
		State: state, Terminal: state != easelv1.State_STATE_QUEUED && state != easelv1.State_STATE_UNRECOGNIZED,
		Inputs: &structpb.Struct{Fields: map[string]*structpb.Value{terminaltest.Evil: structpb.NewStringValue(terminaltest.Evil)}},
		Labels: map[string]string{terminaltest.Evil: terminaltest.Evil},
		Result: &easelv1.Generation_File{File: &easelv1.FileResult{}},
	}
	poisonFields(g)
	if text { // text results are printed with their line breaks, so this test omits the line that looks like a field of the output
		g.Result = &easelv1.Generation_Text{Text: &easelv1.TextResult{Text: strings.ReplaceAll(terminaltest.Evil, "\n  id2", "")}}
	}
	return g
}

func evilModel() *easelv1.Model {
	value := structpb.NewStringValue(terminaltest.Evil)
	return poisonFields(&easelv1.Model{InputFields: []*easelv1.InputField{{
		DefaultValue: value, AllowedValues: []*structpb.Value{value, value}, Type: easelv1.InputFieldType_INPUT_FIELD_TYPE_STRING,
	}}})
}

// evilError returns an error whose strings are all terminaltest.Evil.
func evilError(code codes.Code) error {
	st, err := status.New(code, terminaltest.Evil).WithDetails(
		&errdetails.ErrorInfo{Reason: terminaltest.Evil, Domain: terminaltest.Evil, Metadata: map[string]string{terminaltest.Evil: terminaltest.Evil, "price_cents": "7"}},
		&errdetails.ResourceInfo{ResourceName: terminaltest.Evil, ResourceType: terminaltest.Evil},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: terminaltest.Evil, Description: "it is " + terminaltest.Evil}}},
	)
	if err != nil {
		return err
	}
	return st.Err()
}

// evilServer returns a server that puts terminaltest.Evil into the strings of its responses. All renders have the given
// state. Their results are texts or, if isText is false, files with the given name. Watches of queued renders stay open
// until the client ends them. If the status code is not OK, all calls except lists fail with it. Streams first send
// some messages.
func evilServer(state easelv1.State, isText bool, code codes.Code, fileName string) *scripted {
	fail := func() error { return nil }
	if code != codes.OK {
		fail = func() error { return evilError(code) }
	}
	stay := func(ctx context.Context) {
		if state == easelv1.State_STATE_QUEUED {
			<-ctx.Done()
		}
	}
	render := func() *easelv1.Generation { return evilRender(state, isText) }
	update := func() *easelv1.GenerationUpdate { return &easelv1.GenerationUpdate{Generation: render()} }
	heartbeat := func() *easelv1.Heartbeat {
		return poisonFields(&easelv1.Heartbeat{UpstreamCondition: easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE})
	}
	return &scripted{
		account: func() (*easelv1.Account, error) {
			return poisonFields(&easelv1.Account{BalanceCents: new(int64(5)), Budgets: []*easelv1.Budget{{Window: easelv1.BudgetWindow_BUDGET_WINDOW_DAY, LimitCents: 5}}}), fail()
		},
		usage: func(*easelv1.ListUsageRequest) (*easelv1.ListUsageResponse, error) {
			return &easelv1.ListUsageResponse{Rows: []*easelv1.UsageRow{poisonFields(&easelv1.UsageRow{}), poisonFields(&easelv1.UsageRow{})}}, fail()
		},
		models: func() (*easelv1.ListModelsResponse, error) {
			return &easelv1.ListModelsResponse{Models: []*easelv1.Model{evilModel(), evilModel()}}, fail()
		},
		model: func(*easelv1.GetModelRequest) (*easelv1.Model, error) { return evilModel(), fail() },
		quote: func(*easelv1.QuoteGenerationRequest) (*easelv1.Quote, error) {
			return poisonFields(&easelv1.Quote{PriceCents: 7, BalanceCents: new(int64(5)), Affordable: new(bool)}), fail()
		},
		create: func(*easelv1.CreateGenerationRequest) (*easelv1.Generation, error) { return render(), fail() },
		get:    func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) { return render(), fail() },
		list: func(*easelv1.ListGenerationsRequest) *easelv1.ListGenerationsResponse {
			return &easelv1.ListGenerationsResponse{Generations: []*easelv1.Generation{render(), render()}}
		},
		remove: func(*easelv1.DeleteGenerationRequest) error { return fail() },
		watch: func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
			_ = s.Send(&easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: heartbeat()}})
			_ = s.Send(&easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Update{Update: update()}})
			stay(s.Context())
			return fail()
		},
		watchAll: func(_ *easelv1.WatchGenerationsRequest, s manyStream) error {
			_ = s.Send(&easelv1.WatchGenerationsResponse{Event: &easelv1.WatchGenerationsResponse_Heartbeat{Heartbeat: heartbeat()}})
			_ = s.Send(&easelv1.WatchGenerationsResponse{Event: &easelv1.WatchGenerationsResponse_CaughtUp{CaughtUp: &easelv1.CaughtUp{}}})
			_ = s.Send(&easelv1.WatchGenerationsResponse{Event: &easelv1.WatchGenerationsResponse_Update{Update: update()}})
			stay(s.Context())
			return fail()
		},
		download: func(_ *easelv1.DownloadGenerationRequest, s downloadStream) error {
			data := []byte("bytes")
			_ = s.Send(&easelv1.DownloadGenerationResponse{Chunk: &easelv1.ContentChunk{
				Data: data, Crc32C: crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)),
				Info: &easelv1.ContentInfo{ContentType: terminaltest.Evil, FileName: fileName, Etag: terminaltest.Evil},
			}})
			return fail()
		},
	}
}

// evilCommands returns command lines that print strings from the server.
func evilCommands(dir string) [][]string {
	return [][]string{
		{"account"},
		{"usage", "--by", "day,owner,caller,model,label=" + terminaltest.Evil},
		{"models"},
		{"model", terminaltest.Evil},
		{"quote", terminaltest.Evil, terminaltest.Evil + "=" + terminaltest.Evil},
		{"get", terminaltest.Evil},
		{"list"},
		{"wait", terminaltest.Evil},
		{"watch", terminaltest.Evil},
		{"watch", terminaltest.Evil, "other"},
		{"watch"},
		{"delete", terminaltest.Evil},
		{"delete", terminaltest.Evil, "--allow-missing"},
		{"health"},
		{"generate", terminaltest.Evil, "--inputs-json", "{}"},
		{"generate", terminaltest.Evil, "--inputs-json", "{}", "--watch"},
		{"generate", terminaltest.Evil, "--inputs-json", "{}", "--out", dir},
		{"generate", terminaltest.Evil, "--inputs-json", "{}", "--idempotency-key", terminaltest.Evil, "--out", filepath.Join(dir, "file"), "--force"},
		{"download", terminaltest.Evil, "--out", dir + "/"},
		{"download", terminaltest.Evil, "--out", filepath.Join(dir, "other"), "--force"},
		{"download", terminaltest.Evil, "--wait", "1s", "--out", dir, "--force"},
	}
}

func TestAttackByServerResponseCannotInjectTerminalCodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long; .ci/nightly runs this test")
	}
	shown := map[string]bool{}
	for _, test := range []struct {
		state easelv1.State
		text  bool
		code  codes.Code
	}{
		{state: easelv1.State_STATE_SUCCEEDED},
		{state: easelv1.State_STATE_SUCCEEDED, text: true},
		{state: easelv1.State_STATE_FAILED},
		{state: easelv1.State_STATE_DELETED},
		{state: easelv1.State_STATE_UNRECOGNIZED},
		{state: easelv1.State_STATE_SUCCEEDED, code: codes.NotFound},
		{state: easelv1.State_STATE_SUCCEEDED, code: codes.FailedPrecondition},
		{state: easelv1.State_STATE_QUEUED, code: codes.Unavailable},
	} {
		dial := evilServer(test.state, test.text, test.code, "file.png").serve(t)
		for _, command := range evilCommands(t.TempDir()) {
			for _, form := range [][]string{{}, {"-q"}, {"-o", "json"}} {
				got := easelRun(t.Context(), dial, slices.Concat(command, form, []string{"--timeout", "80ms"})...)
				what := fmt.Sprintf("%+v, %q", test, append(command[:1:1], form...))
				terminaltest.WantHarmless(t, what, got.stdout+got.stderr)
				shown[command[0]] = shown[command[0]] || strings.Contains(got.stdout+got.stderr, `\u001b[2J`)
				if len(form) == 2 && test.code == codes.OK {
					wantJSON(t, what, got.stdout)
				}
			}
		}
	}
	for _, command := range evilCommands("") {
		if !shown[command[0]] && command[0] != "health" {
			t.Errorf("%s does not print the hostile string, which this test needs", command[0])
		}
	}
}

// wantJSON checks that text consists of valid JSON values, and that each generation ID in a top-level object is
// terminaltest.Evil, unchanged.
func wantJSON(t *testing.T, what, text string) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var value any
		err := decoder.Decode(&value)
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Errorf("%s: invalid JSON: %v in %q", what, err, text)
			return
		}
		if object, ok := value.(map[string]any); ok && object["generationId"] != nil && object["generationId"] != terminaltest.Evil {
			t.Errorf("%s: the generation ID is %q", what, object["generationId"])
		}
	}
}

func TestAttackByFileNameOrArgumentCannotInjectTerminalCodes(t *testing.T) {
	dial := evilServer(easelv1.State_STATE_SUCCEEDED, false, codes.OK, terminaltest.Evil).serve(t)
	for _, args := range [][]string{
		{"download", "gen_1", "--out", t.TempDir() + "/"},
		{"get", "gen_1", "--" + terminaltest.Evil},
		{terminaltest.Evil},
		{"account", "--timeout", terminaltest.Evil},
		{"account", "--addr", "http://" + terminaltest.Evil},
		{"account", "--api-key-file", terminaltest.Evil},
		{"watch", terminaltest.Evil, terminaltest.Evil},
	} {
		got := easelEnv(t.Context(), dial, map[string]string{"EASEL_" + terminaltest.Evil: "x"}, args...)
		terminaltest.WantHarmless(t, fmt.Sprintf("%q", args), got.stdout+got.stderr)
		if got.stdout+got.stderr == "" {
			t.Errorf("%q prints nothing, but this test needs output", args)
		}
	}
}
