package server_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/service"
)

// databases returns, for each kind of ledger, a function that creates an empty ledger and returns its URL.
func databases() map[string]func(*testing.T) string {
	if testing.Short() { // omits the in-memory ledger, which also uses SQLite
		return map[string]func(*testing.T) string{"SQLite": sqliteLedger, "PostgreSQL": postgresLedger}
	}
	return map[string]func(*testing.T) string{"memory": memoryLedger, "SQLite": sqliteLedger, "PostgreSQL": postgresLedger}
}

func memoryLedger(*testing.T) string { return ledger.InMemory }

func postgresLedger(t *testing.T) string { return proctest.Database(t) }

func sqliteLedger(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") }

// ledgerStack returns a stack with a shared API key, the ledger at the given URL, and callers with the given names. The
// callers have no teams. The token of each caller is its name.
func ledgerStack(t *testing.T, url string, names []string, change ...func(*options)) *stack {
	t.Helper()
	return sharedStack(t, names, append(change, func(o *options) { o.ledger = url })...)
}

// aboutOne returns a request for the method m with the given generation ID. If the request has a timeout field, aboutOne
// sets it to one second. If requests of this method have no generation ID, aboutOne returns nil.
func aboutOne(m protoreflect.MethodDescriptor, id string) proto.Message {
	field := m.Input().Fields().ByName("generation_id")
	if field == nil {
		return nil
	}
	request := newMessage(m.Input())
	request.ProtoReflect().Set(field, protoreflect.ValueOfString(id))
	if field := m.Input().Fields().ByName("timeout"); field != nil {
		request.ProtoReflect().Set(field, protoreflect.ValueOfMessage(durationpb.New(time.Second).ProtoReflect()))
	}
	return request
}

// strangers maps each kind of owner to a function that creates a stack and starts a watch of a generation. The function
// returns the generation's ID, and a caller that belongs to another owner. newCaller creates a caller of a stack, with
// an API key or token.
var strangers = map[string]func(t *testing.T, newCaller func(*stack, string) caller) (id string, foreign caller){
	"an API key": func(t *testing.T, newCaller func(*stack, string) caller) (string, caller) {
		s := newStack(t, func(o *options) { o.sandbox.Speed = 0.01 })
		return underWatch(t, newCaller(s, s.key)), s.another(newCaller(s, s.key))
	},
	"a team": func(t *testing.T, newCaller func(*stack, string) caller) (string, caller) {
		s := ledgerStack(t, sqliteLedger(t), []string{"shop", "blog"}, func(o *options) { o.sandbox.Speed = 0.01 })
		return underWatch(t, newCaller(s, "shop")), newCaller(s, "blog")
	},
}

func TestForeignGenerationIsReportedLikeUnknownGeneration(t *testing.T) {
	t.Parallel()
	for form, as := range forms {
		for owner, open := range strangers {
			t.Run(form+", "+owner, func(t *testing.T) {
				id, foreign := open(t, as)
				unknown := strings.Repeat("0", len(id))
				tried := 0
				for _, m := range contractMethods() {
					if aboutOne(m, id) == nil {
						continue
					}
					tried++
					var answers []string
					for _, about := range []string{id, unknown} {
						st := statusOf(t, callAny(t.Context(), foreign, string(m.Parent().Name()+"/"+m.Name()), aboutOne(m, about), newMessage(m.Output())))
						if st.Code() != codes.NotFound || service.Reason(st) != easelv1.ErrorReason_GENERATION_NOT_FOUND {
							t.Errorf("%s: %v", m.Name(), st)
						}
						answers = append(answers, strings.ReplaceAll(protojson.Format(st.Proto()), about, "ID"))
					}
					if answers[0] != answers[1] {
						t.Errorf("%s distinguishes another owner's generation from an unknown one:\n%s\n%s", m.Name(), answers[0], answers[1])
					}
				}
				if tried < 5 {
					t.Errorf("only %d methods were tested", tried)
				}
			})
		}
	}
}

// callAny calls a method. If the method returns a stream, callAny reads the stream to its end.
func callAny(ctx context.Context, c caller, method string, request, response proto.Message) error {
	switch request := request.(type) {
	case *easelv1.WatchGenerationRequest:
		return c.watch(ctx, request, func(*easelv1.WatchGenerationResponse) {})
	case *easelv1.WatchGenerationsRequest:
		return c.watchMany(ctx, request, toTheEnd)
	case *easelv1.WatchEventsRequest:
		return c.events(ctx, request, func(*easelv1.WatchEventsResponse) bool { return true })
	case *easelv1.DownloadGenerationRequest:
		return c.download(ctx, request, io.Discard)
	}
	return c.call(ctx, method, request, response)
}

func TestOnlyOperatorsSeeBalanceInCatalogErrors(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		refused := answer(402, `{"message": "balance 1234 cents, price 5678 cents"}`)
		for name, test := range map[string]struct {
			row
			faults []sandbox.Fault
		}{
			"an order":                         {row{call: "create", reason: "INSUFFICIENT_BALANCE"}, []sandbox.Fault{refused}},
			"an order with an unknown outcome": {row{call: "create", reason: "SUBMISSION_OUTCOME_UNKNOWN", retry: true}, []sandbox.Fault{{Reset: true, Count: 1}, refused}},
			"a quote":                          {row{call: "quote", reason: "INSUFFICIENT_BALANCE"}, []sandbox.Fault{refused}},
		} {
			for by, told := range map[string]bool{"shop": false, "poster": false, "ops": true} {
				t.Run(name+" of "+by, func(t *testing.T) {
					defer s.sandbox.ClearFaults()
					for _, fault := range test.faults {
						fault.Route = errorCalls[test.call].route
						s.sandbox.Inject(fault)
					}
					st := statusOf(t, test.sendCall(t, as(by), ""))
					if text := protojson.Format(st.Proto()); service.Reason(st).String() != test.reason || strings.Contains(text, "1234") != told {
						t.Error(text)
					}
				})
			}
		}
	})
}

// newMessage returns an empty message of the given type in the contract.
func newMessage(m protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
	if err != nil {
		panic(err)
	}
	return kind.New().Interface()
}

// orderFor places an order whose label project has the given value. If the value is "none", the order does not have this
// label. Each order also has the label campaign.
func orderFor(t *testing.T, c caller, model, key, project string) error {
	t.Helper()
	labels := map[string]string{"campaign": "spring"}
	if project != "none" {
		labels["project"] = project
	}
	return c.call(t.Context(), "GenerationService/CreateGeneration", labeledOrder(t, model, key, labels), &easelv1.CreateGenerationResponse{})
}

// The team requires the label "project". Each value of this label has a daily budget.
func TestRequiredLabelAndLabelBudgetsAreEnforced(t *testing.T) {
	t.Parallel()
	for name, database := range databases() {
		for form, as := range forms {
			t.Run(form+", "+name, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "callers")
				limit := func(cents int) {
					writeCallers(t, file, fmt.Sprintf("studio: {labels: {required: [project], budgets: {project: {daily_cents: %d}}}}", cents), "poster, team: studio")
				}
				limit(5)
				s := sharedStackFrom(t, file, func(o *options) { o.ledger = database(t) })
				outcome := "not_placed"
				if name == "memory" { // an in-memory ledger can't know whether an earlier call placed the order
					outcome = "not_placed_by_this_call"
				}
				wantLabelBudgets(t, s, as(s, "poster"), limit, outcome)
			})
		}
	}
}

func wantLabelBudgets(t *testing.T, s *stack, c caller, limit func(cents int), outcome string) {
	t.Helper()
	for key, project := range map[string]string{"no-project": "none", "empty-project": ""} {
		st := wantStatus(t, orderFor(t, c, text, key, project), codes.InvalidArgument, "INVALID_REQUEST", 400)
		wantFields(t, st, "labels.project")
		if got := outcomeOf(t, st); got != outcome {
			t.Errorf("the outcome is %q, want %q", got, outcome)
		}
	}
	if n := len(s.audit().ChargesByIdempotencyKey); n != 0 {
		t.Errorf("%d orders were charged", n)
	}
	if err := orderFor(t, c, text, "k", "apollo"); err != nil {
		t.Fatal(err)
	}
	if err := orderFor(t, c, text, "k", "none"); err != nil { // a repeated order may have different labels than the first one
		t.Errorf("repeating the order without the label returned %v", err)
	}
	n := 0
	spend := func(project string) error { n++; return orderFor(t, c, picture, fmt.Sprint("k", n), project) }
	var err error
	for n < 10 && err == nil {
		err = spend("apollo")
	}
	st := wantStatus(t, err, codes.ResourceExhausted, "BUDGET_EXCEEDED", 402)
	if m := metadataOf(t, st); m["label_name"] != "project" || m["label_value"] != "apollo" || m["window"] != "day" || m["reset_time"] == "" || m["price_cents"] == "" {
		t.Errorf("the metadata is %v", m)
	}
	if !hasDetail(st, &errdetails.QuotaFailure{}) || !strings.HasPrefix(outcomeOf(t, st), "not_placed") {
		t.Errorf("the status is %v", st.Proto())
	}
	if err := spend("gemini"); err != nil {
		t.Errorf("an order for another project returned %v", err)
	}
	limit(500)
	eventually(t, "an order fits the larger budget", func() bool { return spend("apollo") == nil })
	if account := accountOf(t, c); len(account.GetBudgets()) != 0 {
		t.Errorf("the team has the budgets %v", account.GetBudgets())
	}
	limit(1)
	eventually(t, "a new project exceeds the smaller budget", func() bool { err = spend(fmt.Sprint("project", n)); return err != nil })
	st = wantStatus(t, err, codes.ResourceExhausted, "BUDGET_EXCEEDED", 402)
	if m := metadataOf(t, st); m["remaining_cents"] != "1" {
		t.Errorf("the metadata of a new project is %v", m)
	}
	st = wantStatus(t, spend("apollo"), codes.ResourceExhausted, "BUDGET_EXCEEDED", 402)
	if m := metadataOf(t, st); m["label_value"] != "apollo" || m["remaining_cents"] != "0" {
		t.Errorf("the metadata of a project that spent more than the smaller budget is %v", m)
	}
	s.audit()
}
