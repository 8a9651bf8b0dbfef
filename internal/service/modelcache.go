package service

import (
	"container/list"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

// The life of a copy. The contract tells it to callers.
const (
	copyFresh    = time.Minute      // until then the copy is the answer
	copyGood     = 10 * time.Minute // until then too, and it is renewed behind the answer
	copyKept     = 24 * time.Hour   // it is gone then, and also when nobody asked for so long
	copyPatience = 5 * time.Second  // for a renewal, where an old copy could serve
	copyRest     = 10 * time.Second // from a renewal that failed to the next try, at least

	copyRoom = 32 << 20 // bytes of all copies
	copyCost = 1 << 10  // bytes that a copy takes besides its messages, about
)

// modelCache keeps what the catalog said of models, for each credential apart: models
// change seldom, and every form that lets somebody order asks for them. While the catalog
// can't be reached, what it said last is the answer.
//
// A copy is kept as the bytes of messages: nobody who gets one can change it, and its size
// is known. There is room for 32 MiB of them. Those used least recently go first, whoever's
// they are.
//
// A copy is read by one flight at a time, which all who need it share. It runs on a context
// of its own, so that whoever began it may leave. The flight is a member of the slot that it
// fills, under the one mutex: what to do depends on both.
type modelCache struct {
	catalog *catalog.Client
	room    int
	ended   context.Context // done when the cache is closed
	end     context.CancelFunc
	work    sync.WaitGroup

	mu    sync.Mutex
	slots map[catalog.Tenant]map[string]*slot // by tenant, and by what is in them
	used  *list.List                          // of slots with a copy, the last one used in front
	size  int                                 // of all copies, in bytes
}

// slot is the place of one copy. It has a copy, a flight, or both.
type slot struct {
	tenant catalog.Tenant
	what   string
	flight *flight // under way; nil where there is none

	models []packed // the copy; nil where there is none
	size   int
	read   time.Time     // when the copy came
	asked  time.Time     // when it was last used
	place  *list.Element // in modelCache.used
	rests  time.Time     // a renewal has failed, and none begins before
}

// What a slot can hold.
const (
	everyModel = "models"
	oneModel   = "model " // and its id
)

// flight is one read of the catalog.
type flight struct {
	cancel  context.CancelFunc
	began   time.Time
	waiting int           // callers; guarded by the cache's mutex
	done    chan struct{} // closed when models or err is set
	models  []packed
	err     error
}

// packed is one model as the bytes of its message.
type packed struct {
	id   string
	wire []byte
}

func newModelCache(client *catalog.Client, room int) *modelCache {
	c := &modelCache{catalog: client, room: room, slots: map[catalog.Tenant]map[string]*slot{}, used: list.New()}
	c.ended, c.end = context.WithCancel(context.Background())
	return c
}

// close ends all flights and waits for them.
func (c *modelCache) close() {
	c.mu.Lock()
	c.end() // under the lock: no flight begins after it
	c.mu.Unlock()
	c.work.Wait()
}

// list gives all models, in the catalog's order.
func (c *modelCache) list(ctx context.Context, cred catalog.Credential) ([]packed, error) {
	return c.get(ctx, cred, everyModel)
}

// model gives one model.
func (c *modelCache) model(ctx context.Context, cred catalog.Credential, id string) (packed, error) {
	models, err := c.get(ctx, cred, oneModel+id)
	if err != nil {
		return packed{}, err
	}
	return models[0], nil
}

func (c *modelCache) get(ctx context.Context, cred catalog.Credential, what string) ([]packed, error) {
	old, s, f := c.open(ctx, cred, what)
	switch {
	case f == nil && old == nil:
		return nil, &closing{easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING, retryDelay}
	case f == nil:
		return old, nil
	}
	defer c.leave(s, f)
	var enough <-chan time.Time // never, without an old copy
	if old != nil {
		timer := time.NewTimer(patience(ctx, f))
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-f.done:
		if f.err != nil && old != nil && outage(f.err) {
			return old, nil
		}
		return f.models, f.err
	case <-enough:
		return old, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// patience is how long a caller with an old copy waits for a flight: nobody does who comes
// when the catalog has been silent for long.
func patience(ctx context.Context, f *flight) time.Duration {
	wait := copyPatience - time.Since(f.began)
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-answerMargin)
	}
	return wait
}

// outage reports whether an old copy is a better answer than the error. What the catalog
// has decided, it is not.
func outage(err error) bool {
	switch catalog.KindOf(err) {
	case catalog.KindUnavailable, catalog.KindRateLimited, catalog.KindMalformed:
		return true
	}
	return false
}

// open gives the copy that there is, and the flight that the caller should wait for. It
// begins a flight where one is due. Both are nil after close.
func (c *modelCache) open(ctx context.Context, cred catalog.Credential, what string) ([]packed, *slot, *flight) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(now)
	s := c.slots[cred.Tenant][what]
	if s != nil && s.models != nil && now.Sub(s.read) >= copyKept {
		c.remove(s)
		s = nil
	}
	if s == nil {
		s = &slot{tenant: cred.Tenant, what: what}
	}
	age := now.Sub(s.read)
	if s.models != nil {
		s.asked = now
		c.used.MoveToFront(s.place)
		if age < copyFresh {
			return s.models, s, nil
		}
	}
	if s.flight == nil && !now.Before(s.rests) && c.ended.Err() == nil {
		c.launch(ctx, cred, s)
	}
	if s.flight == nil || s.models != nil && age < copyGood {
		return s.models, s, nil
	}
	s.flight.waiting++
	return s.models, s, s.flight
}

// launch begins a flight; mu is held. Of ctx only the trace is taken along.
func (c *modelCache) launch(ctx context.Context, cred catalog.Credential, s *slot) {
	of := c.slots[s.tenant]
	if of == nil {
		of = map[string]*slot{}
		c.slots[s.tenant] = of
	}
	of[s.what] = s
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.ended, cancel) //nolint:contextcheck // the end of the cache is one more end, beside those of ctx
	f := &flight{cancel: cancel, began: time.Now(), done: make(chan struct{})}
	s.flight = f
	c.work.Go(func() {
		defer cancel()
		defer stop()
		f.models, f.err = c.read(detached, cred, s.what)
		c.land(s, f)
	})
}

// read asks the catalog.
func (c *modelCache) read(ctx context.Context, cred catalog.Credential, what string) ([]packed, error) {
	id, one := strings.CutPrefix(what, oneModel)
	if !one {
		all, err := c.catalog.Models(ctx, cred)
		if err != nil {
			return nil, err
		}
		return pack(all...)
	}
	model, err := c.catalog.Model(ctx, cred, id)
	if err != nil {
		return nil, err
	}
	return pack(model)
}

// land takes in what a flight has brought.
func (c *modelCache) land(s *slot, f *flight) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(f.done)
	s.flight = nil
	kind := catalog.KindOf(f.err)
	switch {
	case kind == catalog.KindCredentialRejected || kind == catalog.KindForbidden:
		for _, one := range c.slots[s.tenant] {
			c.remove(one)
		}
	case c.slots[s.tenant][s.what] != s: // nobody waits any more, or the key was rejected meanwhile
	case f.err == nil:
		c.keep(s, f.models, now)
	case s.models != nil && outage(f.err):
		var detail *catalog.Error
		errors.As(f.err, &detail)
		s.rests = now.Add(max(copyRest, detail.RetryAfter))
	default:
		c.remove(s)
	}
}

// leave takes a caller off a flight. One that fills an empty slot ends with its last caller;
// the renewal of a copy goes on, for whoever asks next.
func (c *modelCache) leave(s *slot, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting > 0 || s.models != nil || s.flight != f {
		return
	}
	c.remove(s)
	f.cancel()
}

// keep puts a copy into a slot, and makes room for it; mu is held.
func (c *modelCache) keep(s *slot, models []packed, now time.Time) {
	c.clear(s)
	s.size = copyCost
	for _, m := range models {
		s.size += len(m.id) + len(m.wire) + 64 // the headers of both, and of what they lie in
	}
	s.models, s.read, s.asked, s.rests = models, now, now, time.Time{}
	s.place = c.used.PushFront(s)
	c.size += s.size
	for c.size > c.room && c.used.Back() != s.place {
		c.remove(c.used.Back().Value.(*slot))
	}
}

// forget removes the copies that nobody has asked for in a long time; mu is held.
func (c *modelCache) forget(now time.Time) {
	for last := c.used.Back(); last != nil; last = c.used.Back() {
		s := last.Value.(*slot)
		if now.Sub(s.asked) < copyKept {
			return
		}
		c.remove(s)
	}
}

// remove takes a slot out; mu is held. A flight that is under way brings its callers the
// answer, and no copy.
func (c *modelCache) remove(s *slot) {
	c.clear(s)
	of := c.slots[s.tenant]
	if of[s.what] == s {
		delete(of, s.what)
	}
	if len(of) == 0 {
		delete(c.slots, s.tenant)
	}
}

// clear takes the copy out of a slot; mu is held.
func (c *modelCache) clear(s *slot) {
	if s.models != nil {
		c.used.Remove(s.place)
		c.size -= s.size
	}
	s.models, s.place, s.size = nil, nil, 0
}

// pack makes a copy of models.
func pack(models ...catalog.Model) ([]packed, error) {
	out := make([]packed, len(models))
	for i, m := range models {
		wire, err := proto.Marshal(modelMessage(m))
		if err != nil {
			return nil, err
		}
		out[i] = packed{m.ID, wire}
	}
	return out, nil
}

// unpack makes a message that belongs to the caller.
func (p packed) unpack() (*easelv1.Model, error) {
	m := &easelv1.Model{}
	return m, proto.Unmarshal(p.wire, m)
}
