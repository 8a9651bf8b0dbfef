package server_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

const (
	tenantBalance = 100_000 // cents
	unknownID     = "0123456789abcdef"
)

// tenant is one key and what it should own: the simplest possible model of the service.
type tenant struct {
	caller
	name    string
	owned   map[string]*easelv1.Generation // by id
	gone    map[string]bool                // ids that it has deleted
	orders  map[string]string              // ids by idempotency key
	charged int64
}

// town is a few tenants that all use the ids and the idempotency keys of each other.
type town struct {
	*stack
	random  *rand.Rand
	tenants []*tenant
	ids     []string
	own     map[string]int // by RPC, how often it was tried on what belongs to the caller,
	foreign map[string]int // on what belongs to another,
	none    map[string]int // or on nothing in particular
}

// townsmen are the names of the tenants.
var townsmen = []string{"amber", "birch", "cedar"}

// newTown gives each tenant an API key, or a service token where they share the held one.
func newTown(s *stack, seed uint64, form func(key string) caller) *town {
	w := &town{stack: s, random: rand.New(rand.NewPCG(seed, 1)), own: map[string]int{}, foreign: map[string]int{}, none: map[string]int{}}
	for _, name := range townsmen {
		key, err := name, error(nil)
		if !s.teams {
			key, err = s.sandbox.CreateKey(s.Context(), sandbox.KeyConfig{BalanceCents: tenantBalance})
		}
		if err != nil {
			s.Fatal(err)
		}
		w.tenants = append(w.tenants, &tenant{caller: form(key), name: name, owned: map[string]*easelv1.Generation{}, gone: map[string]bool{}, orders: map[string]string{}})
	}
	return w
}

// visit is one call of a tenant about one render, which it may or may not own.
type visit struct {
	*town
	by *tenant
	id string
}

func (v visit) mine() bool { return v.by.owned[v.id] != nil }

// visits has a case for every RPC: what it must do for the owner and for the others.
var visits = map[string]func(visit){
	"AccountService/GetAccount":            visit.account,
	"AccountService/ListUsage":             visit.usage,
	"ModelService/ListModels":              visit.models,
	"ModelService/GetModel":                visit.model,
	"GenerationService/QuoteGeneration":    visit.quote,
	"GenerationService/CreateGeneration":   visit.create,
	"GenerationService/GetGeneration":      visit.get,
	"GenerationService/ListGenerations":    visit.list,
	"GenerationService/WaitGeneration":     visit.wait,
	"GenerationService/WatchGeneration":    visit.watch,
	"GenerationService/WatchGenerations":   visit.watchMany,
	"GenerationService/DownloadGeneration": visit.download,
	"GenerationService/DeleteGeneration":   visit.delete,
}

func TestNothingOfOneKeyIsVisibleToOrUsableByAnother(t *testing.T) { // L7
	t.Parallel()
	overBoth(t, keepApart, func(o *options) { o.sandbox.Speed = 20 })
}

func TestNothingOfOneTeamIsVisibleToOrUsableByAnother(t *testing.T) { // T2
	t.Parallel()
	for name, database := range databases() {
		t.Run(name, func(t *testing.T) {
			for form, as := range forms {
				t.Run(form, func(t *testing.T) {
					s := ledgerStack(t, database(t), townsmen, func(o *options) { o.sandbox.Speed = 20 })
					keepApart(t, s, as(s, ""))
				})
			}
		})
	}
}

// keepApart lets tenants call everything about each other's renders.
func keepApart(t *testing.T, s *stack, c caller) {
	form := func(key string) caller { return grpcCaller{s, key} }
	if _, rest := c.(restCaller); rest {
		form = func(key string) caller { return restCaller{s, key} }
	}
	w := newTown(s, 5, form)
	names := methodNames()
	for range 400 {
		v := visit{w, w.tenants[w.random.IntN(len(w.tenants))], unknownID}
		switch own := slices.Sorted(maps.Keys(v.by.owned)); {
		case len(own) > 0 && w.random.IntN(2) == 0:
			v.id = own[w.random.IntN(len(own))]
		case len(w.ids) > 0 && w.random.IntN(10) > 0:
			v.id = w.ids[w.random.IntN(len(w.ids))]
		}
		name := names[w.random.IntN(len(names))]
		visits[name](v)
		if t.Failed() {
			t.Fatalf("%s by %s about %s", name, v.by.name, v.id)
		}
	}
	w.wantAllTried(names)
}

// methodNames gives the RPCs of the contract, as visits names them.
func methodNames() (names []string) {
	for _, file := range []protoreflect.FileDescriptor{
		easelv1.File_easel_v1_account_service_proto, easelv1.File_easel_v1_model_service_proto, easelv1.File_easel_v1_generation_service_proto,
	} {
		for s := range file.Services().Len() {
			service := file.Services().Get(s)
			for m := range service.Methods().Len() {
				names = append(names, fmt.Sprintf("%s/%s", service.Name(), service.Methods().Get(m).Name()))
			}
		}
	}
	return names
}

// wantAllTried fails the test where an RPC has no case, or was not tried on what belongs to
// the caller and on what does not.
func (w *town) wantAllTried(names []string) {
	w.Helper()
	for _, name := range names {
		if visits[name] == nil {
			w.Errorf("%s has no case here", name)
		}
		if w.none[name] < 3 && (w.own[name] < 3 || w.foreign[name] < 3) {
			w.Errorf("%s was tried %d times on own renders and %d times on others: that proves nothing", name, w.own[name], w.foreign[name])
		}
	}
}

func (v visit) count(name string) {
	switch {
	case v.mine():
		v.own["GenerationService/"+name]++
	case v.id != unknownID:
		v.foreign["GenerationService/"+name]++
	}
}

// unknown checks that the answer about a render of another is that about no render at all.
func (v visit) unknown(err error) {
	v.Helper()
	st, _ := status.FromError(err)
	if st.Code() != codes.NotFound {
		v.Errorf("%s asked for what it does not own: %v", v.by.name, err)
		return
	}
	answer := protojson.Format(st.Proto())
	for _, other := range v.tenants {
		if g := other.owned[v.id]; g != nil && (strings.Contains(answer, g.GetModelId()) || strings.Contains(answer, g.GetInputs().GetFields()["prompt"].GetStringValue())) {
			v.Errorf("the refusal tells of the render: %s", answer)
		}
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() != "GENERATION_NOT_FOUND" {
			v.Errorf("the reason is %s", info.GetReason())
		}
	}
}

// owned checks an answer about a render of the caller's own.
func (v visit) owner(g *easelv1.Generation, err error) {
	v.Helper()
	switch want := v.by.owned[v.id]; {
	case err != nil:
		v.Errorf("%s asked for its own: %v", v.by.name, err)
	case g.GetGenerationId() != v.id || g.GetModelId() != want.GetModelId() || !proto.Equal(g.GetInputs(), want.GetInputs()):
		v.Errorf("%s got %v, want %v", v.by.name, g, want)
	}
}

func (v visit) judge(g *easelv1.Generation, err error) {
	v.Helper()
	switch {
	case v.mine():
		v.owner(g, err)
	case v.by.gone[v.id] && err == nil && g.GetState() == easelv1.State_STATE_DELETED: // it may remember
	default:
		v.unknown(err)
	}
}

func (v visit) account() {
	v.none["AccountService/GetAccount"]++
	resp := &easelv1.GetAccountResponse{}
	if err := v.by.call(v.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, resp); err != nil {
		v.Error(err)
		return
	}
	v.ownAccount(resp.GetAccount(), tenantBalance-v.by.charged)
}

// ownAccount checks that an account is that of the caller's API key, or says nothing of the held one.
func (v visit) ownAccount(account *easelv1.Account, balance int64) {
	if v.teams {
		if account.BalanceCents != nil || len(account.GetUpstreamFields().GetFields()) > 0 {
			v.Errorf("%s is told of the account: %v", v.by.name, account)
		}
	} else if got := account.GetBalanceCents(); got != balance {
		v.Errorf("%s has %d cents, want %d", v.by.name, got, balance)
	}
}
