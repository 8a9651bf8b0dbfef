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
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/orders"
)

type models struct {
	*Service
	easelv1.UnimplementedModelServiceServer
}

// ListModels lists the models that the caller may use.
func (s *models) ListModels(ctx context.Context, req *easelv1.ListModelsRequest) (*easelv1.ListModelsResponse, error) {
	all, err := s.copies.get(ctx, auth.Of(ctx).APIKey, "")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(m encodedModel) bool { return !auth.Of(ctx).MayUse(m.id) })
	items, next, err := page(all, matchAll, encodedModel.name, encodedModel.message, "models", req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &easelv1.ListModelsResponse{Models: items, NextPageToken: next}, nil
}

// GetModel returns one model.
func (s *models) GetModel(ctx context.Context, req *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
	if !auth.Of(ctx).MayUse(req.GetModelId()) {
		return nil, orders.ErrModelNotAllowed
	}
	one, err := s.copies.get(ctx, auth.Of(ctx).APIKey, req.GetModelId())
	if err != nil {
		return nil, aboutModel(err, req.GetModelId())
	}
	return &easelv1.GetModelResponse{Model: one[0].message()}, nil
}

// Limits for the cache of models, which contains responses from the catalog. The values of copyFresh, copyGood and
// copyKept are documented in model_service.proto.
const (
	copyFresh = time.Minute      // a cached response younger than this is returned without a request to the catalog
	copyGood  = 10 * time.Minute // a cached response younger than this is returned immediately, and is updated in the background
	copyKept  = 24 * time.Hour   // a cached response younger than this is returned if the catalog is unavailable
	copyWait  = 5 * time.Second  // maximum wait for the catalog's response if a cached response can be returned instead
	copyPause = 10 * time.Second // minimum time between a failed or slow request to the catalog and the next request

	copyCapacity   = 32 << 20         // maximum total size of the cached responses in bytes; the oldest are removed first
	modelReadLimit = 30 * time.Second // timeout of a request to the catalog
)

// modelCache caches the catalog's models for each API key. Models rarely change, but a user interface may read them for
// each order form.
type modelCache struct {
	catalog  *catalog.Client
	capacity int // bytes
	reads    singleflight.Group
	ctx      context.Context //nolint:containedctx // context of all reads from the catalog, because a read may outlive the call that started it; canceled by close
	stop     context.CancelFunc

	mu     sync.Mutex
	copies map[copyKey]modelCopy
}

// copyKey identifies a cached response. The id is empty for the list of all models.
type copyKey struct {
	tenant catalog.Tenant
	id     string
}

// modelCopy is a cached response from the catalog.
type modelCopy struct {
	models    []encodedModel
	read      time.Time // time when the models were read
	notBefore time.Time // time before which the models are not read again
}

// isUsable reports whether the cached response can be returned without a request to the catalog. This is the case if the
// response is younger than copyFresh, or if notBefore is in the future.
func (c modelCopy) isUsable() bool {
	now := time.Now()
	return now.Sub(c.read) < copyFresh || now.Before(c.notBefore)
}

// encodedModel is an encoded Model message. Its method message decodes a new message each time, so that callers can't
// change the cached model.
type encodedModel struct {
	id   string
	wire []byte
}

func (m encodedModel) name() string { return m.id }

func (m encodedModel) message() *easelv1.Model {
	out := &easelv1.Model{}
	_ = proto.Unmarshal(m.wire, out) // cannot fail, because fetch encoded it
	return out
}

func newModelCache(client *catalog.Client, capacity int) *modelCache {
	ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // modelCache.close calls stop
	return &modelCache{catalog: client, capacity: capacity, ctx: ctx, stop: stop, copies: map[copyKey]modelCopy{}}
}

// close cancels all reads.
func (c *modelCache) close() { c.stop() }

// get returns a model, or all models in the catalog's order if id is empty. It does not wait for the catalog if there
// is a copy younger than copyGood.
func (c *modelCache) get(ctx context.Context, cred catalog.Credential, id string) ([]encodedModel, error) {
	k := copyKey{cred.Tenant, id}
	old, known := c.find(k)
	if known && old.isUsable() {
		return old.models, nil
	}
	read := c.reads.DoChan(string(k.tenant)+"\x00"+id, func() (any, error) {
		if newer, known := c.find(k); known && newer.isUsable() { // another read may have finished since the first check
			return newer.models, nil
		}
		return c.read(ctx, cred, k)
	})
	if known && time.Since(old.read) < copyGood {
		return old.models, nil
	}
	wait, cancel := ctx, context.CancelFunc(func() {})
	if known {
		wait, cancel = shortWait(ctx)
	}
	defer cancel()
	select {
	case got := <-read:
		models, _ := got.Val.([]encodedModel)
		return models, got.Err
	case <-wait.Done():
	}
	if !known {
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blockRefreshes(k, copyPause)
	return old.models, nil
}

// blockRefreshes blocks refreshes of a cached copy for the given duration. c.mu must be held.
func (c *modelCache) blockRefreshes(k copyKey, pause time.Duration) {
	if old, known := c.copies[k]; known {
		old.notBefore = time.Now().Add(pause)
		c.copies[k] = old
	}
}

// shortWait returns a context with a timeout of [copyWait]. If the caller's deadline is near, the timeout is shorter,
// so that time remains to respond from the cache.
func shortWait(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := copyWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-answerMargin)
	}
	return context.WithTimeout(ctx, wait)
}

func (c *modelCache) find(k copyKey) (modelCopy, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.copies[k]
	return found, known && time.Since(found.read) < copyKept
}

// read reads a model or all models from the catalog, and stores the response.
func (c *modelCache) read(ctx context.Context, cred catalog.Credential, k copyKey) ([]encodedModel, error) {
	if c.ctx.Err() != nil {
		return nil, &closing{easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING, retryDelay}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), modelReadLimit)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() //nolint:contextcheck // c.ctx is used only to cancel the read
	models, err := c.fetch(ctx, cred, k.id)
	return c.applyRead(k, models, err)
}

func (c *modelCache) fetch(ctx context.Context, cred catalog.Credential, id string) (all []encodedModel, err error) {
	models := make([]catalog.Model, 1)
	if id == "" {
		models, err = c.catalog.Models(ctx, cred)
	} else {
		models[0], err = c.catalog.Model(ctx, cred, id)
	}
	for _, m := range models {
		if err != nil {
			return nil, err
		}
		var wire []byte
		wire, err = proto.Marshal(modelMessage(m))
		all = append(all, encodedModel{m.ID, wire})
	}
	return all, err
}

// applyRead applies the result of a read to the cache, and returns the models for the callers that waited for the read.
// If the catalog is unavailable, applyRead keeps the cached response, and returns this response if it is younger than
// copyKept. Any other error deletes the cached response. If the catalog rejects the API key, applyRead deletes all
// cached responses for that key.
func (c *modelCache) applyRead(k copyKey, models []encodedModel, err error) ([]encodedModel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.copies[k]
	switch {
	case err == nil:
		c.copies[k] = modelCopy{models: models, read: time.Now()}
		c.makeRoom()
	case isRejection(err):
		maps.DeleteFunc(c.copies, func(one copyKey, _ modelCopy) bool { return one.tenant == k.tenant })
	case !isOutage(err):
		delete(c.copies, k)
	case known && time.Since(old.read) < copyKept:
		c.blockRefreshes(k, max(copyPause, retryAfter(err)))
		return old.models, nil
	}
	return models, err
}

// isRejection reports whether an error means that the catalog rejected the API key.
func isRejection(err error) bool {
	kind := catalog.KindOf(err)
	return kind == catalog.KindCredentialRejected || kind == catalog.KindForbidden
}

// isOutage reports whether an error means that the catalog was unavailable or overloaded, did not respond in time, or
// sent an unreadable response.
func isOutage(err error) bool {
	_, responded := errors.AsType[*catalog.Error](err)
	switch catalog.KindOf(err) {
	case catalog.KindUnavailable, catalog.KindBusy, catalog.KindRateLimited, catalog.KindMalformed:
		return true
	}
	return !responded // without a catalog.Error, the read has timed out
}

// retryAfter returns the delay that the catalog requested, or zero.
func retryAfter(err error) time.Duration {
	if failed, ok := errors.AsType[*catalog.Error](err); ok {
		return failed.RetryAfter
	}
	return 0
}

// makeRoom removes expired copies. If the remaining copies together exceed the cache's capacity, it removes the oldest
// of them.
func (c *modelCache) makeRoom() {
	maps.DeleteFunc(c.copies, func(_ copyKey, one modelCopy) bool { return time.Since(one.read) >= copyKept })
	size := 0
	for _, one := range c.copies {
		size += one.size()
	}
	for size > c.capacity {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.copies)), func(a, b copyKey) int {
			return c.copies[a].read.Compare(c.copies[b].read)
		})
		size -= c.copies[oldest].size()
		delete(c.copies, oldest)
	}
}

// size returns the approximate memory use of a copy, in bytes.
func (c modelCopy) size() int {
	const copyCost, modelCost = 1 << 10, 64
	size := copyCost
	for _, model := range c.models {
		size += modelCost + len(model.wire)
	}
	return size
}
