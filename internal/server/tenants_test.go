package server_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

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
	"AccountService/WatchAccount":          visit.watchAccount,
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

// watchAccount waits for the balance, which may be as of before the last orders at first.
func (v visit) watchAccount() {
	v.none["AccountService/WatchAccount"]++
	ctx, leave := context.WithTimeout(v.Context(), time.Minute)
	defer leave()
	balance := tenantBalance - v.by.charged
	err := v.by.watchAccount(ctx, &easelv1.WatchAccountRequest{}, func(m *easelv1.WatchAccountResponse) bool {
		account := m.GetUpdate().GetAccount()
		if account == nil || account.BalanceCents != nil && *account.BalanceCents > balance {
			return true
		}
		v.ownAccount(account, balance)
		return false
	})
	if err != nil {
		v.Error(err)
	}
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

// usage is of the caller's own orders alone.
func (v visit) usage() {
	v.none["AccountService/ListUsage"]++
	resp := &easelv1.ListUsageResponse{}
	err := v.by.call(v.Context(), "AccountService/ListUsage", &easelv1.ListUsageRequest{}, resp)
	cost := int64(0)
	for _, row := range resp.GetRows() {
		cost += row.GetCostCents()
	}
	if err != nil || cost != v.by.charged {
		v.Errorf("%s has used %d cents, want %d: %v", v.by.name, cost, v.by.charged, err)
	}
}

func (v visit) models() {
	v.none["ModelService/ListModels"]++
	resp := &easelv1.ListModelsResponse{}
	if err := v.by.call(v.Context(), "ModelService/ListModels", &easelv1.ListModelsRequest{}, resp); err != nil || len(resp.GetModels()) == 0 {
		v.Errorf("%d models, %v", len(resp.GetModels()), err)
	}
}

func (v visit) model() {
	v.none["ModelService/GetModel"]++
	if err := v.by.call(v.Context(), "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: text}, &easelv1.GetModelResponse{}); err != nil {
		v.Error(err)
	}
}

func (v visit) quote() {
	v.none["GenerationService/QuoteGeneration"]++
	req := &easelv1.QuoteGenerationRequest{ModelId: text, Inputs: inputs(v.T, map[string]any{"prompt": "rain"})}
	resp := &easelv1.QuoteGenerationResponse{}
	if err := v.by.call(v.Context(), "GenerationService/QuoteGeneration", req, resp); err != nil {
		v.Error(err)
	} else if balance := resp.GetQuote().BalanceCents; balance != nil && v.teams {
		v.Errorf("a quote tells %s of the balance", v.by.name)
	} else if balance != nil && *balance != tenantBalance-v.by.charged {
		v.Errorf("a quote tells %s a balance of %d", v.by.name, *balance)
	}
}

// create orders under a key that other tenants use too: to each it is a key of its own.
func (v visit) create() {
	v.none["GenerationService/CreateGeneration"]++
	key := fmt.Sprint("order-", v.random.IntN(25))
	prompt := v.by.name + " " + key
	req := order(v.T, text, key, prompt)
	if strings.HasSuffix(key, "7") {
		req = order(v.T, picture, key, prompt)
		req.GetInputs().Fields["size"] = inputs(v.T, map[string]any{"size": "64x40"}).GetFields()["size"]
	}
	g := create(v.T, v.by, req)
	id := g.GetGenerationId()
	if before, again := v.by.orders[key]; again {
		if before != id {
			v.Errorf("%s of %s is %s, and was %s", key, v.by.name, id, before)
		}
		return
	}
	if slices.Contains(v.ids, id) {
		v.Errorf("%s of %s gave the render of another", key, v.by.name)
	}
	g.Inputs = req.GetInputs()
	v.by.owned[id], v.by.orders[key] = g, id
	v.by.charged += g.GetCostCents()
	v.ids = append(v.ids, id)
}

func (v visit) get() {
	v.count("GetGeneration")
	req := &easelv1.GetGenerationRequest{GenerationId: v.id}
	if v.random.IntN(2) == 0 {
		req.MaxStaleness = durationpb.New(0)
	}
	resp := &easelv1.GetGenerationResponse{}
	err := v.by.call(v.Context(), "GenerationService/GetGeneration", req, resp)
	v.judge(resp.GetGeneration(), err)
}

func (v visit) wait() {
	v.count("WaitGeneration")
	resp := &easelv1.WaitGenerationResponse{}
	err := v.by.call(v.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: v.id, Timeout: durationpb.New(30 * time.Second)}, resp)
	v.judge(resp.GetGeneration(), err)
}

func (v visit) list() {
	v.none["GenerationService/ListGenerations"]++
	resp := &easelv1.ListGenerationsResponse{}
	if err := v.by.call(v.Context(), "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{PageSize: 1000}, resp); err != nil {
		v.Error(err)
	}
	for _, g := range resp.GetGenerations() {
		if v.by.owned[g.GetGenerationId()] == nil {
			v.Errorf("the list of %s has %s", v.by.name, g.GetGenerationId())
		}
	}
	if len(resp.GetGenerations()) != len(v.by.owned) {
		v.Errorf("the list of %s has %d renders, want %d", v.by.name, len(resp.GetGenerations()), len(v.by.owned))
	}
}

// watch has the owner watch first, so that the answer could come from what the server knows.
func (v visit) watch() {
	v.count("WatchGeneration")
	for _, owner := range v.tenants {
		if owner.owned[v.id] != nil && owner != v.by {
			visit{v.town, owner, v.id}.watch()
		}
	}
	var newest *easelv1.Generation
	err := v.by.watch(v.Context(), &easelv1.WatchGenerationRequest{GenerationId: v.id}, func(m *easelv1.WatchGenerationResponse) {
		if g := m.GetUpdate().GetGeneration(); g != nil {
			newest = g
		}
	})
	v.judge(newest, err)
}

func (v visit) watchMany() {
	v.count("WatchGenerations")
	mixed := append([]string{v.id}, v.ids...)
	slices.Sort(mixed)
	mixed = slices.Compact(mixed)
	mixed = mixed[:min(50, len(mixed))]
	known := map[string]string{}
	for _, id := range mixed {
		known[id] = "e"
	}
	for _, req := range []*easelv1.WatchGenerationsRequest{{GenerationIds: mixed}, {KnownEtags: known}} {
		states, err := manyStates(v.Context(), v.by.caller, req, mixed)
		if err != nil {
			v.Error(err)
		}
		for id, g := range states {
			v.judgeOneOfMany(id, g)
		}
	}
}

// judgeOneOfMany sees that a watch of many tells of no more than is the caller's.
func (v visit) judgeOneOfMany(id string, g *easelv1.Generation) {
	mine := v.by.owned[id] != nil
	if v.by.gone[id] && g.GetState() == easelv1.State_STATE_DELETED {
		return
	}
	if bare := g.GetState() == easelv1.State_STATE_DELETED && g.GetModelId() == "" && g.GetInputs() == nil && g.CostCents == nil; bare == mine {
		v.Errorf("%s (own: %v) is told %v", v.by.name, mine, g)
	}
}

// manyStates opens a watch of many and gives the first state of each, until it has those of some.
func manyStates(ctx context.Context, c caller, req *easelv1.WatchGenerationsRequest, until []string) (map[string]*easelv1.Generation, error) {
	ctx, leave := context.WithTimeout(ctx, 30*time.Second)
	defer leave()
	states := map[string]*easelv1.Generation{}
	err := c.watchMany(ctx, req, func(m *easelv1.WatchGenerationsResponse) (more bool) {
		if g := m.GetUpdate().GetGeneration(); g != nil {
			states[g.GetGenerationId()] = g
		}
		return slices.ContainsFunc(until, func(id string) bool { return states[id] == nil })
	})
	return states, err
}

func (v visit) download() {
	v.count("DownloadGeneration")
	bytes, err := v.by.download(v.Context(), &easelv1.DownloadGenerationRequest{GenerationId: v.id, WaitTimeout: durationpb.New(30 * time.Second)})
	switch {
	case !v.mine():
		v.unknown(err)
		if len(bytes) > 0 {
			v.Errorf("%s got %d bytes of another's result", v.by.name, len(bytes))
		}
	case v.by.owned[v.id].GetModelId() == picture && (err != nil || len(bytes) == 0):
		v.Errorf("%s got %d bytes of its own result: %v", v.by.name, len(bytes), err)
	case v.by.owned[v.id].GetModelId() == text && status.Code(err) != codes.FailedPrecondition:
		v.Errorf("a text was downloaded: %v", err)
	}
}

func (v visit) delete() {
	v.count("DeleteGeneration")
	err := v.by.call(v.Context(), "GenerationService/DeleteGeneration", &easelv1.DeleteGenerationRequest{GenerationId: v.id, Force: true}, &easelv1.DeleteGenerationResponse{})
	if !v.mine() {
		v.unknown(err)
		return
	}
	if err != nil {
		v.Error(err)
	}
	v.by.gone[v.id] = true
	delete(v.by.owned, v.id) // the charge stays, and so does the order's key
}
