package easel

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// UntilSettled goes on until no money can move any more: a refund may follow a failure.
func UntilSettled() CallOption {
	return func(o *call) { o.until = easelv1.WatchUntil_WATCH_UNTIL_SETTLED }
}

// KnownEtags leaves out the states that are known, by generation id.
func KnownEtags(etags map[string]string) CallOption {
	return func(o *call) { o.known = etags }
}

// Matching chooses among the generations of WatchMany.
func Matching(filter Filter) CallOption { return func(o *call) { o.filter = filter } }

// Watch yields the state of a generation as it is, and then each newer one until the goal: its last state ends the loop.
// An error comes last, and alone: a repeat can't mend it, or the context has ended, which stops a watch from elsewhere.
// The watch goes on through everything else, a server that restarts or falls silent for three heartbeats among it, and
// repeats no state.
func (c *Client) Watch(ctx context.Context, generationID string, options ...CallOption) iter.Seq2[*Render, error] {
	return c.watch(ctx, generationID, "", options...)
}

// watch is Watch, with the key of the order where that is known.
func (c *Client) watch(ctx context.Context, generationID, key string, options ...CallOption) iter.Seq2[*Render, error] {
	return func(yield func(*Render, error) bool) {
		ctx, o, cancel := c.begin(ctx, streamLimits, options)
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

// WatchMany yields the state of each named generation, and then each newer one. The loop ends when all have reached the
// goal. Without ids it watches every generation, new ones too, and ends with the context. It continues after errors as Watch
// does, and repeats no state of the 10,000 that changed last.
func (c *Client) WatchMany(ctx context.Context, ids []string, options ...CallOption) iter.Seq2[*Render, error] {
	return func(yield func(*Render, error) bool) {
		ctx, o, cancel := c.begin(ctx, streamLimits, options)
		defer cancel()
		known := newEtags(len(ids) > 0, o.known)
		w := watch[*easelv1.WatchGenerationsResponse, Render]{attempts: c.attempt(o, "WatchGenerations", "", ""), endless: len(ids) == 0}
		w.open = func(ctx context.Context) (stream[*easelv1.WatchGenerationsResponse], error) {
			return c.Generations.WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{
				GenerationIds: ids, Until: o.until, Filter: o.filter.message(), KnownEtags: known.wanted(), HeartbeatInterval: durationpb.New(c.heartbeat),
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

// renderOf is a state with what the last heartbeat has estimated.
func (w watch[M, S]) renderOf(generation *easelv1.Generation) *Render {
	render := renderOf(generation)
	if w.heartbeat != nil && !render.Terminal {
		render.TypicalRemaining = w.heartbeat.TypicalRemaining
	}
	return render
}

// shortest is the shortest heartbeat interval that the contract allows. The server refuses a shorter one, and is given the
// time to say so.
const shortest = time.Second
