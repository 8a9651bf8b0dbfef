package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/orders"
)

type models struct {
	*Service
	easelv1.UnimplementedModelServiceServer
}

// ListModels lists the models that the caller may use, from a copy if there is a good one.
func (s *models) ListModels(ctx context.Context, req *easelv1.ListModelsRequest) (*easelv1.ListModelsResponse, error) {
	all, err := s.copies.get(ctx, credential(ctx), "")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(m encodedModel) bool { return !who(ctx).mayUse(m.id) })
	items, next, err := page(all, everything, encodedModel.name, encodedModel.message, "models", req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &easelv1.ListModelsResponse{Models: items, NextPageToken: next}, nil
}

// GetModel returns one model, from a copy if there is a good one.
func (s *models) GetModel(ctx context.Context, req *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
	if !who(ctx).mayUse(req.GetModelId()) {
		return nil, orders.ErrModelNotAllowed
	}
	one, err := s.copies.get(ctx, credential(ctx), req.GetModelId())
	if err != nil {
		return nil, aboutModel(err, req.GetModelId())
	}
	return &easelv1.GetModelResponse{Model: one[0].message()}, nil
}

// The life of a copy. The contract documents it.
const (
	copyFresh = time.Minute      // until then the copy is the answer
	copyGood  = 10 * time.Minute // until then too, and it is renewed in the background
	copyKept  = 24 * time.Hour   // it is deleted then, and also when it was not used for so long
	copyWait  = 5 * time.Second  // for a renewal, where there is an old copy
	copyPause = 10 * time.Second // from a failed renewal to the next one, at least

	copyCapacity = 32 << 20 // bytes of all copies; the least recently used go first, under whatever API key
	copyCost     = 1 << 10  // bytes that a copy takes besides its models, about
	modelCost    = 64       // bytes that a model takes besides its message
)

// modelCache keeps the catalog's models, separately for each credential: models change seldom, and every
// order form reads them. While the catalog can't be reached, the last copy is the answer.
type modelCache struct {
	catalog  *catalog.Client
	capacity int            // bytes
	work     sync.WaitGroup // of reads

	mu     sync.Mutex
	copies map[copyKey]*modelCopy
	reads  map[copyKey]*modelRead // under way
	closed bool
}

// copyKey says whose copy it is, and of which model; "" is the list of all.
type copyKey struct {
	tenant catalog.Tenant
	id     string
}

// modelCopy is an answer of the catalog.
type modelCopy struct {
	models     []encodedModel // nil: there is none
	read, used time.Time
	notBefore  time.Time // no renewal begins earlier
}

// encodedModel is a model as the bytes of its message: callers can't change it, and its size is known.
type encodedModel struct {
	id   string
	wire []byte
}

func (m encodedModel) name() string { return m.id }

func (m encodedModel) message() *easelv1.Model {
	out := &easelv1.Model{}
	_ = proto.Unmarshal(m.wire, out) // it was encoded here
	return out
}

// modelRead is a read of the catalog for all who wait for it. It ends with the last of them, of whom a copy that is to be
// renewed is one.
type modelRead struct {
	began   time.Time
	cancel  context.CancelFunc
	waiting int
	stale   bool          // the API key was rejected meanwhile, so that it leaves no copy
	ended   chan struct{} // closed when the answer is there
	models  []encodedModel
	err     error
}

func newModelCache(client *catalog.Client, capacity int) *modelCache {
	return &modelCache{catalog: client, capacity: capacity, copies: map[copyKey]*modelCopy{}, reads: map[copyKey]*modelRead{}}
}

// close ends all reads, and waits for them.
func (c *modelCache) close() {
	c.mu.Lock()
	c.closed = true // no read begins any more
	for _, r := range c.reads {
		r.cancel()
	}
	c.mu.Unlock()
	c.work.Wait()
}

// get gives a model, or all in the catalog's order. A caller that has an old copy does not wait long for a newer one.
func (c *modelCache) get(ctx context.Context, cred catalog.Credential, id string) ([]encodedModel, error) {
	k := copyKey{cred.Tenant, id}
	found, r := c.look(ctx, cred, k)
	switch {
	case found.models != nil && (r == nil || time.Since(found.read) < copyGood):
		return found.models, nil
	case r == nil:
		return nil, &closing{easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING, retryDelay}
	case found.models != nil:
		return r.orCopy(ctx, found.models)
	}
	defer c.leave(k, r)
	select {
	case <-r.ended:
		return r.models, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// orCopy gives the answer, or the old copy where the catalog has been silent for long.
func (r *modelRead) orCopy(ctx context.Context, old []encodedModel) ([]encodedModel, error) {
	wait := time.Until(r.began.Add(copyWait))
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-answerMargin)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-r.ended:
		return r.models, r.err
	case <-ctx.Done():
		return old, nil
	}
}

// look gives the copy as it is now, empty where there is none, and the read that is under way, which a caller without a
// copy waits for until it leaves. It begins one where there is no copy, or an old one.
func (c *modelCache) look(ctx context.Context, cred catalog.Credential, k copyKey) (found modelCopy, r *modelRead) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.copies[k]
	if m != nil && now.Sub(m.read) >= copyKept {
		delete(c.copies, k)
		m = nil
	}
	if m != nil {
		m.used, found = now, *m
	}
	r = c.reads[k]
	isDue := m == nil || now.Sub(m.read) >= copyFresh && !now.Before(m.notBefore)
	begins := r == nil && isDue && !c.closed
	if begins {
		r = c.begin(ctx, cred, k)
	}
	if begins || m == nil && r != nil {
		r.waiting++
	}
	return found, r
}

// begin begins a read; mu is held. The read has a context of its own, as the caller that began it may leave: it takes
// only the trace from ctx.
func (c *modelCache) begin(ctx context.Context, cred catalog.Credential, k copyKey) *modelRead {
	r := &modelRead{began: time.Now(), ended: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.reads[k] = r
	c.work.Go(func() {
		defer r.cancel()
		models, err := c.read(ctx, cred, k.id)
		c.land(k, r, models, err)
	})
	return r
}

// leave takes a caller off a read. Nobody joins one that is ending.
func (c *modelCache) leave(k copyKey, r *modelRead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.waiting--; r.waiting == 0 && c.reads[k] == r {
		r.cancel()
		delete(c.reads, k)
	}
}

// read asks the catalog.
func (c *modelCache) read(ctx context.Context, cred catalog.Credential, id string) ([]encodedModel, error) {
	models, err := make([]catalog.Model, 1), error(nil)
	if id == "" {
		models, err = c.catalog.Models(ctx, cred)
	} else {
		models[0], err = c.catalog.Model(ctx, cred, id)
	}
	if err != nil {
		return nil, err
	}
	all := make([]encodedModel, len(models))
	for n, m := range models {
		wire, err := proto.Marshal(modelMessage(m))
		if err != nil {
			return nil, err
		}
		all[n] = encodedModel{m.ID, wire}
	}
	return all, nil
}

// land takes the result of a read. In an outage an old copy is a better answer than an error; where the
// catalog refuses, it is not.
func (c *modelCache) land(k copyKey, r *modelRead, models []encodedModel, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(r.ended)
	r.models, r.err = models, err
	if c.reads[k] != r {
		return // nobody waits any more
	}
	delete(c.reads, k)
	e, _ := errors.AsType[*catalog.Error](err)
	switch catalog.KindOf(err) {
	case catalog.KindCredentialRejected, catalog.KindForbidden:
		c.reject(k.tenant)
	case catalog.KindUnavailable, catalog.KindBusy, catalog.KindRateLimited, catalog.KindMalformed:
		if m := c.copies[k]; m != nil {
			m.notBefore = time.Now().Add(max(copyPause, e.RetryAfter))
			r.models, r.err = m.models, nil
		}
	default:
		delete(c.copies, k)
		if err == nil && !r.stale {
			c.keep(k, models)
		}
	}
}

// keep makes a copy, and drops the least recently used where there is no capacity for it; mu is held.
func (c *modelCache) keep(k copyKey, models []encodedModel) {
	now, size := time.Now(), 0
	maps.DeleteFunc(c.copies, func(_ copyKey, m *modelCopy) bool { return now.Sub(m.used) >= copyKept })
	c.copies[k] = &modelCopy{models: models, read: now, used: now}
	for _, m := range c.copies {
		size += m.size()
	}
	for size > c.capacity {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.copies)), func(a, b copyKey) int {
			return c.copies[a].used.Compare(c.copies[b].used)
		})
		size -= c.copies[oldest].size()
		delete(c.copies, oldest)
	}
}

// size is how many bytes the copy takes, about.
func (m *modelCopy) size() int {
	size := copyCost
	for _, model := range m.models {
		size += len(model.wire) + modelCost
	}
	return size
}

// reject removes the copies of an API key, and keeps none of the reads that are under way; mu is held.
func (c *modelCache) reject(tenant catalog.Tenant) {
	maps.DeleteFunc(c.copies, func(k copyKey, _ *modelCopy) bool { return k.tenant == tenant })
	for k, r := range c.reads {
		r.stale = r.stale || k.tenant == tenant
	}
}
