package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

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
	work     sync.WaitGroup // of renewals
	flights  singleflight.Group

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

func (k copyKey) flight() string { return string(k.tenant) + " " + k.id }

// modelCopy is an answer of the catalog.
type modelCopy struct {
	models     []encodedModel // nil: there is none
	read, used time.Time

	renewal   chan struct{} // closed when the renewal that is under way has ended; nil: there is none
	begun     time.Time     // when that began
	notBefore time.Time     // no renewal begins earlier
}

// encodedModel is a model as the bytes of its message: callers can't change it, and its size is known.
type encodedModel struct {
	id   string
	wire []byte
}

func (m encodedModel) name() string { return m.id }

// message is the message as it stands on the wire, which nobody needs decoded here.
func (m encodedModel) message() *easelv1.Model {
	out := &easelv1.Model{}
	out.ProtoReflect().SetUnknown(m.wire)
	return out
}

// modelRead is a read of the catalog, for as long as a caller waits for it.
type modelRead struct {
	ctx     context.Context
	cancel  context.CancelFunc
	waiting int
	stale   bool // the API key was rejected meanwhile, so that it leaves no copy
}

func newModelCache(client *catalog.Client, capacity int) *modelCache {
	return &modelCache{catalog: client, capacity: capacity, copies: map[copyKey]*modelCopy{}, reads: map[copyKey]*modelRead{}}
}

// close ends all reads, and waits for those in the background.
func (c *modelCache) close() {
	c.mu.Lock()
	c.closed = true // no read begins any more
	for _, r := range c.reads {
		r.cancel()
	}
	c.mu.Unlock()
	c.work.Wait()
}

// get gives a model, or all in the catalog's order.
func (c *modelCache) get(ctx context.Context, cred catalog.Credential, id string) ([]encodedModel, error) {
	k := copyKey{cred.Tenant, id}
	found := c.current(ctx, cred, k)
	if found.renewal != nil && time.Since(found.read) >= copyGood {
		found.wait(ctx)
		found = c.current(ctx, cred, k)
	}
	if found.models != nil {
		return found.models, nil
	}
	return c.fetch(ctx, cred, k)
}

// current gives the copy as it is now, empty where there is none. It begins a renewal where
// one is due, which goes on when the caller leaves.
func (c *modelCache) current(ctx context.Context, cred catalog.Credential, k copyKey) modelCopy {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.copies[k]
	if m == nil || now.Sub(m.read) >= copyKept {
		return modelCopy{}
	}
	m.used = now
	if now.Sub(m.read) >= copyFresh && m.renewal == nil && !now.Before(m.notBefore) && !c.closed {
		renewal := make(chan struct{})
		m.renewal, m.begun = renewal, now
		c.work.Go(func() {
			defer close(renewal)
			_, _ = c.fetch(context.WithoutCancel(ctx), cred, k)
		})
	}
	return *m
}

// wait waits for the renewal of an old copy, but not for long. A caller does not wait where the catalog
// has been silent for long.
func (m modelCopy) wait(ctx context.Context) {
	wait := time.Until(m.begun.Add(copyWait))
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-answerMargin)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-m.renewal:
	case <-ctx.Done():
	}
}

// fetch reads the catalog, once for all callers.
func (c *modelCache) fetch(ctx context.Context, cred catalog.Credential, k copyKey) ([]encodedModel, error) {
	r := c.join(ctx, k)
	if r == nil {
		return nil, &closing{easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING, retryDelay}
	}
	defer c.leave(k, r)
	flight := c.flights.DoChan(k.flight(), func() (any, error) {
		if models := c.fresh(k); models != nil { // another read has ended since this caller looked
			return models, nil
		}
		models, err := c.read(r.ctx, cred, k.id)
		c.land(k, r, models, err)
		return models, err
	})
	select {
	case landed := <-flight:
		return landed.Val.([]encodedModel), landed.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join adds a caller to a read; nil once the cache is closed. The read has a context of its own, as
// the caller that began it may leave: it takes only the trace from ctx.
func (c *modelCache) join(ctx context.Context, k copyKey) *modelRead {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	r := c.reads[k]
	if r == nil {
		r = &modelRead{}
		r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		c.reads[k] = r
	}
	r.waiting++
	return r
}

// leave takes a caller off a read, which ends with its last one.
func (c *modelCache) leave(k copyKey, r *modelRead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.cancel()
		c.flights.Forget(k.flight())
		delete(c.reads, k)
	}
}

// fresh gives what a copy holds that needs no renewal.
func (c *modelCache) fresh(k copyKey) []encodedModel {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.copies[k]; m != nil && time.Since(m.read) < copyFresh {
		return m.models
	}
	return nil
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
	if r.ctx.Err() != nil {
		return // nobody waits any more
	}
	e, _ := errors.AsType[*catalog.Error](err)
	switch catalog.KindOf(err) {
	case catalog.KindCredentialRejected, catalog.KindForbidden:
		c.reject(k.tenant)
	case catalog.KindUnavailable, catalog.KindBusy, catalog.KindRateLimited, catalog.KindMalformed:
		if m := c.copies[k]; m != nil {
			m.renewal, m.notBefore = nil, time.Now().Add(max(copyPause, e.RetryAfter))
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
