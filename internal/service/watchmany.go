package service

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// WatchGenerations sends the state changes of the generations in the request, or of all generations that the caller may
// see.
func (s *generations) WatchGenerations(req *easelv1.WatchGenerationsRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error {
	ctx := stream.Context()
	w := &watchOfMany{
		service: s, stream: stream, known: s.StillKnown(ctx), filter: req.GetFilter(), named: len(req.GetGenerationIds()) > 0,
		covered: map[string]bool{},
	}
	request, err := w.convertRequest(ctx, req)
	if err == nil && w.hasWork(request) {
		err = s.convertWatchError(s.cfg.Hub.Watch(ctx, &request, w.deliver))
	}
	if closing := closingMessage(err); closing != nil {
		out := s.sender(stream)
		_ = out.send(&easelv1.WatchGenerationsResponse{
			Event: &easelv1.WatchGenerationsResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now(),
		})
	}
	return err
}

// watchOfMany is a call of WatchGenerations. It sends heartbeats, and the updates of the watched generations that the
// caller may see and the filter selects.
type watchOfMany struct {
	service     *generations
	stream      grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]
	known       func() error // returns an error if the caller is no longer authorized
	filter      *easelv1.GenerationFilter
	named       bool                          // whether the request contains generation IDs; otherwise the watch covers all generations
	owner       *string                       // owner of the generations; nil means any owner
	needsLedger bool                          // whether the watch covers only orders in the ledger, and therefore fails if the ledger is unavailable
	whose       map[string]ledger.Attribution // attributions of the generations at the start of the watch, keyed by generation ID; nil after all states at the start were sent
	ordered     map[string]bool               // whether an order for the generation exists or may exist, keyed by generation ID
	covered     map[string]bool               // IDs of generations whose latest state the caller already has; nil after all states at the start were sent
}

// convertRequest converts a client's request to a request for the hub. For each requested generation that the caller
// may not see, convertRequest sends STATE_DELETED to the caller.
func (w *watchOfMany) convertRequest(ctx context.Context, req *easelv1.WatchGenerationsRequest) (request watch.Request, err error) {
	s := w.service
	filter, err := ledgerFilter(ctx, w.filter)
	if err != nil {
		return request, err
	}
	w.owner, w.needsLedger = filter.Owner, mustHide(ctx, viewer(ctx)) || len(filter.Labels) > 0 || w.filter.GetOwner() != ""
	request = watch.Request{
		Credential: auth.Of(ctx).APIKey,
		Everything: !w.named,
		Goal:       goal(req.GetUntil()),
		KnownEtags: req.GetKnownEtags(),
		ModelID:    filter.ModelID,
		Heartbeat:  req.GetHeartbeatInterval().AsDuration(),
		Until:      s.watchEnd(ctx),
		Stall:      s.cfg.SendTimeout,
	}
	if w.named {
		request.IDs, err = w.choose(ctx, req.GetGenerationIds(), req.GetKnownEtags())
		request.Ordered = w.ordered
		return request, err
	}
	if err = w.completeRequest(ctx, filter, &request); err != nil {
		return request, err
	}
	known, err := w.choose(ctx, slices.Sorted(maps.Keys(req.GetKnownEtags())), req.GetKnownEtags(), request.IDs, request.Listed)
	request.KnownEtags = make(map[string]string, len(known))
	for _, id := range known {
		request.KnownEtags[id] = req.GetKnownEtags()[id]
	}
	request.Ordered = w.ordered
	return request, err
}

// choose returns the generations in ids that the caller may see and the filter does not exclude. For each generation in
// ids that the caller may not see, it sends STATE_DELETED, unless knownEtags contains the etag of this state. It also
// stores the attributions of the generations in ids and otherIDs.
func (w *watchOfMany) choose(ctx context.Context, ids []string, knownEtags map[string]string, otherIDs ...[]string) (chosen []string, err error) {
	all := slices.Concat(append(otherIDs, ids)...)
	w.ordered = make(map[string]bool, len(all))
	if w.whose, err = w.service.cfg.Orders.Owned(ctx, w.owner, all...); err != nil && w.needsLedger {
		return nil, err // this watch covers only orders in the ledger, so it fails without the ledger
	}
	for _, id := range all {
		whose, ok := w.whose[id]
		w.ordered[id] = err != nil || ok && !whose.Deleted
	}
	err = nil
	ownAlone := mustHide(ctx, viewer(ctx))
	for _, id := range ids {
		whose, ok := w.whose[id]
		switch {
		case ownAlone && !ok:
			err = w.sendUpdate(hiddenUpdate(id), whose, knownEtags[id])
		case !isExcluded(w.filter, whose.Model, whose):
			chosen = append(chosen, id)
		}
		if err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// isExcluded reports whether a filter excludes a generation. It checks the model, and the labels and the owner in the
// attribution. If model is empty, the generation's model is unknown and is not checked.
func isExcluded(filter *easelv1.GenerationFilter, model string, whose ledger.Attribution) bool {
	for name, value := range filter.GetLabels() {
		if has, ok := whose.Labels[name]; !ok || has != value {
			return true
		}
	}
	return filter.GetOwner() != "" && filter.GetOwner() != whose.Owner || filter.GetModelId() != "" && model != "" && filter.GetModelId() != model
}

// completeRequest completes the hub request for a watch of all generations. If callers share an API key, or the
// watch covers only orders in the ledger, it adds the generations of unsettled orders. If the watch covers only
// orders in the ledger, it also restricts the watch to the orders that the filter selects.
func (w *watchOfMany) completeRequest(ctx context.Context, filter ledger.Filter, request *watch.Request) (err error) {
	if !w.needsLedger && !auth.Of(ctx).SharesAPIKey() {
		return nil
	}
	if request.IDs, err = w.service.cfg.Orders.Unsettled(ctx, filter); err != nil || !w.needsLedger {
		return err
	}
	request.Orders = w
	request.Listed, err = w.service.cfg.Orders.Existing(ctx, filter)
	return err
}

// Covers implements [watch.Orders].
func (w *watchOfMany) Covers(whose ledger.Attribution) bool {
	return (w.owner == nil || whose.Owner == *w.owner) && !isExcluded(w.filter, whose.Model, whose)
}

// hasWork reports whether the request has any generations to watch. If it has none, hasWork sends the caught_up
// message.
func (w *watchOfMany) hasWork(request watch.Request) bool {
	if request.Everything || len(request.IDs) > 0 {
		return true
	}
	_ = w.sendCaughtUp() // the error can be ignored, because the stream ends anyway
	return false
}

// deliver sends an event from the hub to the caller. It returns [watch.ErrSkipped] if there is nothing to send, and
// another error if the caller is no longer authorized or sending fails.
func (w *watchOfMany) deliver(event watch.Event) error {
	if err := w.known(); err != nil {
		return err
	}
	switch {
	case event.Known != nil: // the caller already has this state
		if w.matchesModel(event.Known) {
			w.updateCovered(event.Known)
		}
		return watch.ErrSkipped
	case event.Update != nil:
		if !w.matchesModel(event.Update) {
			return watch.ErrSkipped
		}
		return w.sendUpdate(event.Update, w.attributionOf(event.Update), "")
	case event.CaughtUp:
		return w.sendCaughtUp()
	}
	return w.stream.SendMsg(&easelv1.WatchGenerationsResponse{
		Event: &easelv1.WatchGenerationsResponse_Heartbeat{Heartbeat: heartbeatMessage(auth.Of(w.stream.Context()), *event.Heartbeat)}, EmitTime: timestamppb.Now(),
	})
}

// matchesModel reports whether the model of an update matches the filter. A filter with a model also matches the
// deletion of a generation whose model is unknown. The labels and the owner are not checked here, because they were
// checked before the hub subscribed the watch to the generation.
func (w *watchOfMany) matchesModel(u *watch.Update) bool {
	model := cmp.Or(u.ModelID, w.whose[u.ID].Model)
	return w.filter.GetModelId() == "" || model == w.filter.GetModelId() || model == "" && u.State == catalog.StateDeleted
}

// attributionOf returns the attribution to send with an update. For an initial update, this is the attribution that was
// read at the start of the watch, if there was one. For other updates, it queries the ledger, because a watch of many
// generations does not keep attributions. If the query fails, the attribution is empty.
func (w *watchOfMany) attributionOf(u *watch.Update) ledger.Attribution {
	if whose, ok := w.whose[u.ID]; ok && u.Initial {
		return whose
	}
	whose, _ := encodingsOf(u).cachedAttribution(func() (ledger.Attribution, error) { return w.service.readAttribution(w.stream.Context(), u.ID) })
	return whose
}

// sendUpdate sends an update. If known is the etag of the update, the caller already has the state, and nothing is
// sent.
func (w *watchOfMany) sendUpdate(u *watch.Update, whose ledger.Attribution, known string) error {
	w.updateCovered(u)
	if u.Etag == known {
		return nil
	}
	return w.stream.SendMsg(updateResponse(encodingsOf(u).encode(u, whose), time.Now()))
}

// updateCovered updates the set of generations that the caught_up message counts. It adds the generation of u, or
// removes it if it is deleted and the request contains no generation IDs. After the caught_up message, updateCovered
// does nothing.
func (w *watchOfMany) updateCovered(u *watch.Update) {
	switch {
	case w.covered == nil:
	case w.named || u.State != catalog.StateDeleted:
		w.covered[u.ID] = true
	default:
		delete(w.covered, u.ID)
	}
}

func (w *watchOfMany) sendCaughtUp() error {
	count := len(w.covered)
	w.covered, w.whose = nil, nil
	return w.stream.SendMsg(&easelv1.WatchGenerationsResponse{
		Event: &easelv1.WatchGenerationsResponse_CaughtUp{CaughtUp: &easelv1.CaughtUp{GenerationCount: int32(count)}}, EmitTime: timestamppb.Now(),
	})
}
