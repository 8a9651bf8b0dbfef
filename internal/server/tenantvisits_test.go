package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

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
