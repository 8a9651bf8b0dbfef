package easel

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Watch yields the state of a generation as it is, and then each newer one until the goal: its last state ends
// the loop. An error comes last, and alone: a repeat can't mend it, or the context has ended. The watch
// goes on through everything else, a server that restarts or falls silent for three heartbeats among it,
// and repeats no state.
func (c *Client) Watch(ctx context.Context, request *easelv1.WatchGenerationRequest) iter.Seq2[*easelv1.Generation, error] {
	return func(yield func(*easelv1.Generation, error) bool) {
		next := &easelv1.WatchGenerationRequest{}
		proto.Merge(next, request)
		next.IncludeContent = false // Download resumes
		follow(ctx, watch[*easelv1.WatchGenerationResponse, easelv1.Generation]{
			silence: silence(&next.HeartbeatInterval),
			open: func(ctx context.Context) (stream[*easelv1.WatchGenerationResponse], error) {
				return c.WatchGeneration(ctx, next)
			},
			take: func(message *easelv1.WatchGenerationResponse) (newer *easelv1.Generation, progress bool) {
				generation := message.GetUpdate().GetGeneration()
				if generation == nil {
					return nil, false
				}
				before := next.GetKnownEtag()
				next.KnownEtag = generation.GetEtag()
				return generation, next.GetKnownEtag() != before
			},
		}, yield)
	}
}

// WatchMany yields the state of each generation that the request names, or of every one where it names none,
// and then each newer one. With named generations the loop ends when all have reached the goal; without,
// it goes on until the context ends. It goes on through errors as Watch does, with the etags of its updates, and
// repeats no state of the 10,000 generations that changed last.
func (c *Client) WatchMany(ctx context.Context, request *easelv1.WatchGenerationsRequest) iter.Seq2[*easelv1.Generation, error] {
	return func(yield func(*easelv1.Generation, error) bool) {
		next := &easelv1.WatchGenerationsRequest{}
		proto.Merge(next, request)
		known := newEtags(next)
		follow(ctx, watch[*easelv1.WatchGenerationsResponse, easelv1.Generation]{
			silence: silence(&next.HeartbeatInterval),
			endless: len(next.GetGenerationIds()) == 0,
			open: func(ctx context.Context) (stream[*easelv1.WatchGenerationsResponse], error) {
				next.KnownEtags = known.wanted()
				return c.WatchGenerations(ctx, next)
			},
			take: func(message *easelv1.WatchGenerationsResponse) (newer *easelv1.Generation, progress bool) {
				generation := message.GetUpdate().GetGeneration()
				if generation == nil || !known.add(generation) {
					return nil, false
				}
				return generation, true
			},
		}, yield)
	}
}

// WatchAccount yields the account as it is, and then after each change of its balance or budgets. It has
// no goal: it goes on through errors as Watch does, until the context ends, and repeats no state.
func (c *Client) WatchAccount(ctx context.Context, request *easelv1.WatchAccountRequest) iter.Seq2[*easelv1.Account, error] {
	return func(yield func(*easelv1.Account, error) bool) {
		next := &easelv1.WatchAccountRequest{}
		proto.Merge(next, request)
		var last *easelv1.Account
		follow(ctx, watch[*easelv1.WatchAccountResponse, easelv1.Account]{
			silence: silence(&next.HeartbeatInterval),
			endless: true,
			open: func(ctx context.Context) (stream[*easelv1.WatchAccountResponse], error) {
				return c.AccountServiceClient.WatchAccount(ctx, next)
			},
			take: func(message *easelv1.WatchAccountResponse) (newer *easelv1.Account, progress bool) {
				update := message.GetUpdate()
				if update.GetAccount() == nil {
					return nil, false
				}
				before := last
				last = money(update.GetAccount())
				if update.GetInitial() && proto.Equal(last, before) { // every stream begins with the whole account
					return nil, false
				}
				return update.GetAccount(), before == nil || !update.GetInitial()
			},
		}, yield)
	}
}

// money is what of an account can change: not when it was read, nor what else the catalog says.
func money(account *easelv1.Account) *easelv1.Account {
	same := proto.CloneOf(account)
	same.ObserveTime, same.UpstreamFields = nil, nil
	return same
}

// shortest is the shortest heartbeat interval that the contract allows.
const shortest = time.Second

// silence is how long a stream may be quiet: three of its heartbeats, which are set where they are not. The server
// refuses an interval that is too short, and is given the time to say so.
func silence(heartbeat **durationpb.Duration) time.Duration {
	if *heartbeat == nil {
		*heartbeat = durationpb.New(10 * time.Second)
	}
	return 3 * max((*heartbeat).AsDuration(), shortest)
}
