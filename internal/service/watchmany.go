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
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

// WatchGenerations sends each change of many generations.
func (s *generations) WatchGenerations(req *easelv1.WatchGenerationsRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error {
	ctx := stream.Context()
	w := &watchOfMany{
		service: s, stream: stream, known: s.stillKnown(ctx), filter: req.GetFilter(), named: len(req.GetGenerationIds()) > 0,
		covered: map[string]bool{}, leave: func() {},
	}
	defer func() { w.leave() }()
	request, err := w.request(ctx, req)
	if err == nil && w.goesOn(request) {
		err = s.closes(s.cfg.Hub.Watch(ctx, &request, w.deliver))
	}
	if closing := closingMessage(err); closing != nil {
		out := s.sender(stream)
		_ = out.send(&easelv1.WatchGenerationsResponse{
			Event: &easelv1.WatchGenerationsResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now(),
		})
	}
	return err
}

// watchOfMany sends updates and heartbeats of the generations that exist for the caller, and that its filter
// chooses.
type watchOfMany struct {
	service *generations
	stream  grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]
	known   func() error // the caller may still call
	filter  *easelv1.GenerationFilter
	named   bool                          // the caller names the generations; else it watches everything
	whose   map[string]ledger.Attribution // attributions of the generations that the request names
	owner   *string                       // whose generations it may be of; nil is everybody's
	must    bool                          // none is wanted but those that the ledger knows: it has to answer
	askAt   time.Time                     // the ledger is not asked before
	covered map[string]bool               // generations of which the caller has a state, until it has caught up
	own     *orders.OwnOrders             // of a watch of everything of what the ledger knows alone
	leave   func()                        // ends its part in them
}

// request is the request to the hub. The caller is told at once of what does not exist for it.
func (w *watchOfMany) request(ctx context.Context, req *easelv1.WatchGenerationsRequest) (request watch.Request, err error) {
	s := w.service
	filter, err := ledgerFilter(ctx, w.filter)
	if err != nil {
		return request, err
	}
	w.owner, w.must = filter.Owner, hides(ctx, viewer(ctx)) || len(filter.Labels) > 0 || w.filter.GetOwner() != ""
	request = watch.Request{
		Credential: credential(ctx),
		Everything: !w.named,
		Goal:       goal(req.GetUntil()),
		KnownEtags: req.GetKnownEtags(),
		ModelID:    filter.ModelID,
		Heartbeat:  req.GetHeartbeatInterval().AsDuration(),
		Until:      s.until(ctx),
		Stall:      s.cfg.SendTimeout,
	}
	if w.named {
		request.IDs, err = w.choose(ctx, req.GetGenerationIds(), req.GetKnownEtags())
		request.Ordered = s.standing(ctx, request.IDs...)
		return request, err
	}
	known, err := w.choose(ctx, slices.Sorted(maps.Keys(req.GetKnownEtags())), req.GetKnownEtags())
	if err != nil {
		return request, err
	}
	request.KnownEtags = make(map[string]string, len(known))
	for _, id := range known {
		request.KnownEtags[id] = req.GetKnownEtags()[id]
	}
	if request.IDs, err = w.everything(ctx, filter); w.own != nil {
		request.Chosen = chosenOf(w.own, w.filter)
	}
	request.Ordered = make(map[string]bool, len(known)+len(request.IDs))
	maps.Copy(request.Ordered, s.standing(ctx, known...))
	for _, id := range request.IDs { // which come from the ledger
		request.Ordered[id] = true
	}
	return request, err
}

// choose gives those of some generations that the caller wants, as far as the ledger can tell. It tells the caller
// of the ids that do not exist for it.
func (w *watchOfMany) choose(ctx context.Context, ids []string, known map[string]string) (chosen []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if w.whose, err = w.ask(ctx, ids...); err != nil && w.must {
		return nil, err // else labels alone are missing
	}
	ownAlone := hides(ctx, viewer(ctx))
	for _, id := range ids {
		whose, ok := w.whose[id]
		switch {
		case ownAlone && !ok:
			err = w.sendUpdate(hidden(id), whose, known[id])
		case !excludes(w.filter, whose.Model, whose):
			chosen = append(chosen, id)
		}
		if err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// excludes reports whether a filter leaves a generation out, by its model, which is "" where nobody knows it yet,
// and by its order.
func excludes(filter *easelv1.GenerationFilter, model string, whose ledger.Attribution) bool {
	for name, value := range filter.GetLabels() {
		if has, ok := whose.Labels[name]; !ok || has != value {
			return true
		}
	}
	return filter.GetOwner() != "" && filter.GetOwner() != whose.Owner || filter.GetModelId() != "" && model != "" && filter.GetModelId() != model
}

// everything gives the generations that a watch of everything covers beside the listed ones.
func (w *watchOfMany) everything(ctx context.Context, filter ledger.Filter) ([]string, error) {
	if w.must {
		own, leave, err := w.service.ownOrdersOf(ctx, filter.Owner)
		if err == nil {
			w.own, w.leave = own, leave
		}
		return nil, err
	}
	if !credential(ctx).Held {
		return nil, nil
	}
	return w.service.cfg.Orders.Unsettled(ctx, filter)
}

// goesOn reports whether there is anything to watch; else the caller has caught up.
func (w *watchOfMany) goesOn(request watch.Request) bool {
	if request.Everything || len(request.IDs) > 0 {
		return true
	}
	_ = w.sendCaughtUp() // the stream ends with it
	return false
}

// deliver sends an event.
func (w *watchOfMany) deliver(event watch.Event) error {
	if err := w.known(); err != nil {
		return err
	}
	switch {
	case event.Known != nil: // there is nothing to send
		if w.wants(event.Known, w.attribution(event.Known)) {
			w.cover(event.Known)
		}
		return watch.ErrSkipped
	case event.Update != nil:
		whose := w.attribution(event.Update)
		if !w.wants(event.Update, whose) {
			return watch.ErrSkipped
		}
		return w.sendUpdate(event.Update, whose, "")
	case event.CaughtUp:
		return w.sendCaughtUp()
	}
	return w.stream.SendMsg(&easelv1.WatchGenerationsResponse{
		Event: &easelv1.WatchGenerationsResponse_Heartbeat{Heartbeat: heartbeatMessage(who(w.stream.Context()), *event.Heartbeat)}, EmitTime: timestamppb.Now(),
	})
}

// wants reports whether the filter chooses the generation of an update. One that is gone, and whose model nobody
// knows, is of interest to a caller that has named it.
func (w *watchOfMany) wants(u *watch.Update, whose ledger.Attribution) bool {
	model := cmp.Or(u.ModelID, whose.Model)
	if model == "" && w.filter.GetModelId() != "" && u.State != catalog.StateDeleted {
		return false
	}
	return !excludes(w.filter, model, whose)
}

// attribution is whose the generation of an update is. Where the ledger has to say so, what it says is remembered for the
// other watchers.
func (w *watchOfMany) attribution(u *watch.Update) ledger.Attribution {
	id := u.ID
	whose, ok := w.whose[id]
	if !ok && w.own != nil {
		whose, ok = w.own.Whose(id)
	}
	if !ok {
		whose = w.askInTime(id) // else it is missing alone
	}
	return whose
}

const (
	askTimeout = time.Second // of a question to the ledger within a watch, which holds up its heartbeats
	askPause   = time.Second // how long the ledger is not asked after it has failed in a watch
)

// askInTime asks whose a generation is, so that the watch goes on where the ledger is slow or away.
func (w *watchOfMany) askInTime(id string) (whose ledger.Attribution) {
	if time.Now().Before(w.askAt) {
		return whose
	}
	ctx, cancel := context.WithTimeout(w.stream.Context(), askTimeout)
	defer cancel()
	own, err := w.ask(ctx, id)
	if err != nil {
		w.askAt = time.Now().Add(askPause)
	}
	return own[id]
}

// ask asks whose generations are.
func (w *watchOfMany) ask(ctx context.Context, ids ...string) (map[string]ledger.Attribution, error) {
	return w.service.cfg.Orders.Owned(ctx, w.owner, ids...)
}

// sendUpdate sends an update, unless the caller has the state by its etag.
func (w *watchOfMany) sendUpdate(u *watch.Update, whose ledger.Attribution, known string) error {
	w.cover(u)
	if u.Etag == known {
		return nil
	}
	return w.stream.SendMsg(updateResponse(encodeUpdate(u, whose), time.Now()))
}

// cover counts a generation until the caller has caught up: also one that has appeared meanwhile. One that is gone
// counts where the caller has named it.
func (w *watchOfMany) cover(u *watch.Update) {
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
	w.covered = nil
	return w.stream.SendMsg(&easelv1.WatchGenerationsResponse{
		Event: &easelv1.WatchGenerationsResponse_CaughtUp{CaughtUp: &easelv1.CaughtUp{GenerationCount: int32(count)}}, EmitTime: timestamppb.Now(),
	})
}
