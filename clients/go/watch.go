package easel

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// UntilSettled extends a watch until the cost is final, because a finished render may still be refunded.
func UntilSettled() CallOption {
	return func(o *call) { o.until = easelv1.WatchUntil_WATCH_UNTIL_SETTLED }
}

// KnownEtags sets the etags of the states that the caller already has, keyed by generation ID. A watch does not yield
// these states.
func KnownEtags(etags map[string]string) CallOption {
	return func(o *call) { o.known = etags }
}

// Matching returns an option that limits WatchMany to the generations that match filter.
func Matching(filter Filter) CallOption { return func(o *call) { o.filter = filter } }

// Watch yields a generation's current state, and then each newer state. The loop ends when the generation is finished or, with
// UntilSettled, when its cost is final. If a retry can't help, the attempts are used up or the context is done, the loop ends
// with an error. The watch continues after all other failures, such as a server restart or three heartbeat intervals without a
// message. It never repeats a state. To stop a watch from another goroutine, cancel its context.
func (c *Client) Watch(ctx context.Context, generationID string, options ...CallOption) iter.Seq2[*Render, error] {
	return c.watch(ctx, generationID, "", options...)
}

// watch implements Watch. key is the order's idempotency key, or "" if unknown.
func (c *Client) watch(ctx context.Context, generationID, key string, options ...CallOption) iter.Seq2[*Render, error] {
	return func(yield func(*Render, error) bool) {
		ctx, o, cancel := c.applyOptions(ctx, streamLimits, options)
		defer cancel()
		next := &easelv1.WatchGenerationRequest{
			GenerationId: generationID, Until: o.until, KnownEtag: o.known[generationID], HeartbeatInterval: durationpb.New(c.heartbeat),
		}
		w := watch[*easelv1.WatchGenerationResponse, Render]{attempts: c.attempt(o, "WatchGeneration", generationID, key)}
		w.open = func(ctx context.Context) (stream[*easelv1.WatchGenerationResponse], error) {
			return c.Generations.WatchGeneration(ctx, next)
		}
		w.take = func(message *easelv1.WatchGenerationResponse) *Render {
			generation := message.GetUpdate().GetGeneration()
			if generation == nil || generation.GetEtag() != "" && generation.GetEtag() == next.GetKnownEtag() {
				return nil
			}
			next.KnownEtag = generation.GetEtag()
			return w.renderOf(generation)
		}
		follow(ctx, w, yield)
	}
}

// WatchMany yields the current state of each named generation, and then each newer state. The loop ends when all named
// generations are finished or, with UntilSettled, when all their costs are final. If ids is empty, WatchMany watches all
// generations, including new ones, until the context is done. It handles failures in the same way as Watch. It never repeats a
// state of the 10,000 generations that changed most recently.
func (c *Client) WatchMany(ctx context.Context, ids []string, options ...CallOption) iter.Seq2[*Render, error] {
	return func(yield func(*Render, error) bool) {
		ctx, o, cancel := c.applyOptions(ctx, streamLimits, options)
		defer cancel()
		known := newEtags(len(ids) > 0, o.known)
		w := watch[*easelv1.WatchGenerationsResponse, Render]{attempts: c.attempt(o, "WatchGenerations", "", ""), endless: len(ids) == 0}
		w.open = func(ctx context.Context) (stream[*easelv1.WatchGenerationsResponse], error) {
			return c.Generations.WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{
				GenerationIds: ids, Until: o.until, Filter: o.filter.toMessage(), KnownEtags: known.latestEtags(), HeartbeatInterval: durationpb.New(c.heartbeat),
			})
		}
		w.take = func(message *easelv1.WatchGenerationsResponse) *Render {
			generation := message.GetUpdate().GetGeneration()
			if generation == nil || !known.add(generation) {
				return nil
			}
			return renderOf(generation)
		}
		follow(ctx, w, yield)
	}
}

// renderOf converts a generation to a Render, and adds the estimated remaining time from the last heartbeat.
func (w watch[M, S]) renderOf(generation *easelv1.Generation) *Render {
	render := renderOf(generation)
	if w.heartbeat != nil && !render.Terminal {
		render.TypicalRemaining = w.heartbeat.TypicalRemaining
	}
	return render
}

// shortest is the minimum heartbeat interval in the contract. The server rejects a watch with a shorter interval. Such a watch
// uses the minimum for its own timeout, so that the rejection can arrive in time.
const shortest = time.Second
