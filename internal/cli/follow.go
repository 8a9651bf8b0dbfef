package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// event is one message of a watch, of one generation, of many or of the account.
type event struct {
	update    *easelv1.GenerationUpdate
	account   *easelv1.AccountUpdate
	heartbeat *easelv1.Heartbeat
	closing   *easelv1.StreamClosing
	caughtUp  *easelv1.CaughtUp
	raw       proto.Message // as it came
}

// receive gives the next event of one stream, and io.EOF where the goal is reached.
type receive func() (event, error)

// follower watches generations until their goal, or the account, over as many streams as it takes.
type follower struct {
	ids       []string // none means every generation there is
	filter    *easelv1.GenerationFilter
	until     easelv1.WatchUntil
	heartbeat time.Duration // longest silence asked for; after three of them, and 9 s, the stream counts as lost

	open func(context.Context, *follower) (receive, error)
	seen func(event)                          // each event that is new, in order
	lost func(err error, delay time.Duration) // a stream is gone, and when the next is tried

	generations map[string]*easelv1.Generation // the newest state of each
	failures    int                            // streams lost in a row, without a message between
	asked       time.Duration                  // how long the server asked to wait before the next stream
}

var errSilent = errors.New("the server was silent for three heartbeats")

// run follows until the goal is reached, which is the only nil. Ending it never touches
// a generation.
func (f *follower) run(ctx context.Context) error {
	for {
		err := f.stream(ctx)
		if err == nil || ctx.Err() == nil && f.reached() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if isPermanent(err) {
			return err
		}
		delay := delayAfter(err, f.failures)
		if f.asked > 0 {
			delay = f.asked // the server has spread these itself
		}
		f.failures++
		f.lost(err, delay)
		if err := sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// stream follows over one stream until it ends. Nil means that the goal is reached.
func (f *follower) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := max(3*f.heartbeat, 9*time.Second)
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	f.asked = 0
	next, err := f.open(ctx, f)
	for err == nil {
		var e event
		if e, err = next(); err == nil {
			watchdog.Reset(silence)
			f.failures = 0
			f.accept(e)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// accept takes an event in, and hands it on unless it repeats what is known: a stream of everything begins with
// those of many generations that the etags left out.
func (f *follower) accept(e event) {
	if e.closing != nil {
		f.asked = e.closing.RetryDelay.AsDuration()
	}
	if e.update != nil {
		g := e.update.Generation
		known := f.generations[g.GenerationId]
		if known != nil && (known.Etag != "" && known.Etag == g.Etag || known.Terminal && !g.Terminal) {
			return
		}
		f.generations[g.GenerationId] = g
	}
	f.seen(e)
}

// reached reports whether every named generation is known to be at its goal, so that a lost
// stream need not be opened again.
func (f *follower) reached() bool { return len(f.ids) > 0 && len(f.remaining()) == 0 }

// remaining are the named generations that are not known to be at their goal. Whether a
// failed one is settled only the server knows.
func (f *follower) remaining() []string {
	return slices.DeleteFunc(slices.Clone(f.ids), func(id string) bool {
		g := f.generations[id]
		return g.GetTerminal() && (f.until != easelv1.WatchUntil_WATCH_UNTIL_SETTLED || g.State != easelv1.State_STATE_FAILED)
	})
}

// mostKnown is of how many generations a watch of many may say what it knows.
const mostKnown = 1000

// knownEtags are the etags of what the next stream may cover, of the newest generations where there are too many.
func (f *follower) knownEtags() map[string]string {
	remaining := f.remaining()
	all := slices.DeleteFunc(slices.Collect(maps.Values(f.generations)), func(g *easelv1.Generation) bool {
		return g.State == easelv1.State_STATE_DELETED || len(f.ids) > 0 && !slices.Contains(remaining, g.GenerationId)
	})
	slices.SortFunc(all, func(a, b *easelv1.Generation) int { return created(b).Compare(created(a)) })
	etags := map[string]string{}
	for _, g := range all[:min(len(all), mostKnown)] {
		etags[g.GenerationId] = g.Etag
	}
	return etags
}

// last is the newest known state of a generation, nil where there is none yet.
func (f *follower) last(id string) *easelv1.Generation { return f.generations[id] }

// worst gives the verdict on all generations: the first that did not succeed.
func (f *follower) worst() error {
	for _, id := range slices.Sorted(maps.Keys(f.generations)) {
		if err := verdict(f.generations[id]); err != nil {
			return err
		}
	}
	return nil
}

// follow prepares to follow the named generations, or all.
func (s *session) follow(ids []string, until easelv1.WatchUntil) *follower {
	f := &follower{
		ids: ids, until: until, heartbeat: 15 * time.Second,
		generations: map[string]*easelv1.Generation{},
		seen:        func(event) {}, lost: func(error, time.Duration) {},
		open: s.openMany,
	}
	if s.ErrStyle.Terminal {
		f.heartbeat = time.Second // somebody looks at it, and it says how long it may take
	}
	if len(ids) == 1 {
		f.open = s.openOne
	}
	return f
}

func (s *session) openOne(ctx context.Context, f *follower) (receive, error) {
	stream, err := s.generations.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{
		GenerationId: f.ids[0], Until: f.until, HeartbeatInterval: span(f.heartbeat),
		KnownEtag: f.last(f.ids[0]).GetEtag(),
	})
	return func() (event, error) {
		m, err := stream.Recv()
		return event{update: m.GetUpdate(), heartbeat: m.GetHeartbeat(), closing: m.GetClosing(), raw: m}, err
	}, err
}

func (s *session) openMany(ctx context.Context, f *follower) (receive, error) {
	stream, err := s.generations.WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{
		GenerationIds: f.remaining(), Until: f.until, HeartbeatInterval: span(f.heartbeat), KnownEtags: f.knownEtags(), Filter: f.filter,
	})
	return func() (event, error) {
		m, err := stream.Recv()
		return event{update: m.GetUpdate(), heartbeat: m.GetHeartbeat(), closing: m.GetClosing(), caughtUp: m.GetCaughtUp(), raw: m}, err
	}, err
}

func (s *session) openAccount(ctx context.Context, f *follower) (receive, error) {
	stream, err := s.accounts.WatchAccount(ctx, &easelv1.WatchAccountRequest{HeartbeatInterval: span(f.heartbeat)})
	return func() (event, error) {
		m, err := stream.Recv()
		return event{account: m.GetUpdate(), heartbeat: m.GetHeartbeat(), closing: m.GetClosing(), raw: m}, err
	}, err
}

// initialRead holds back the generations that a watch of everything begins with until all of
// them are there, because they come in any order and are read from the oldest to the newest.
type initialRead struct {
	next func(event)
	done func() // called once, when all that was there has been handed on

	held     []event
	complete bool
}

func (g *initialRead) seen(e event) {
	if e.update != nil && !g.complete {
		g.held = append(g.held, e)
		return
	}
	g.release() // whatever else comes, nobody should wait longer for what is there
	g.next(e)
	if e.caughtUp != nil && !g.complete {
		g.complete = true
		g.done()
	}
}

// release hands on what is held back, the oldest generation first.
func (g *initialRead) release() {
	slices.SortStableFunc(g.held, func(a, b event) int {
		return created(a.update.Generation).Compare(created(b.update.Generation))
	})
	for _, e := range g.held {
		g.next(e)
	}
	g.held = nil
}

// created is when a generation was ordered. One that does not say is taken for old.
func created(g *easelv1.Generation) time.Time {
	if g.CreateTime == nil {
		return time.Time{}
	}
	return g.CreateTime.AsTime()
}
