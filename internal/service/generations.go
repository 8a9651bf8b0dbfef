package service

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

type generations struct {
	*Service
	easelv1.UnimplementedGenerationServiceServer
}

// QuoteGeneration returns the price of a generation with the given inputs, and whether the balance covers it.
func (s *generations) QuoteGeneration(ctx context.Context, req *easelv1.QuoteGenerationRequest) (*easelv1.QuoteGenerationResponse, error) {
	if !auth.Of(ctx).MayUse(req.GetModelId()) {
		return nil, orders.ErrModelNotAllowed
	}
	inputs, err := s.inputs(req)
	if err != nil {
		return nil, err
	}
	balance := s.readBalance(ctx)
	quote, err := s.cfg.Catalog.Quote(ctx, auth.Of(ctx).APIKey, req.GetModelId(), inputs)
	if err != nil {
		return nil, aboutModel(err, req.GetModelId())
	}
	out := &easelv1.Quote{
		PriceCents:   quote.PriceCents,
		CurrencyCode: catalog.CurrencyCode,
		QuoteTime:    timestamp(quote.ObserveTime),
	}
	if cents := <-balance; cents != nil {
		affordable := *cents >= quote.PriceCents
		out.BalanceCents, out.Affordable = cents, &affordable
	}
	return &easelv1.QuoteGenerationResponse{Quote: out}, nil
}

// readBalance reads the balance in the background and sends it on the returned channel. It sends nil if the balance can't
// be read or the caller may not see it.
func (s *generations) readBalance(ctx context.Context) <-chan *int64 {
	out := make(chan *int64, 1)
	if !auth.Of(ctx).SeesAccount {
		out <- nil
		return out
	}
	go func() {
		account, err := s.cfg.Catalog.Account(ctx, auth.Of(ctx).APIKey)
		if err != nil {
			account.BalanceCents = nil
		}
		out <- account.BalanceCents
	}()
	return out
}

// CreateGeneration places a paid order.
func (s *generations) CreateGeneration(ctx context.Context, req *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
	inputs, err := s.inputs(req)
	if err != nil {
		return nil, &orders.Error{Outcome: orders.NotPlacedByThisCall, Err: err}
	}
	if expires := req.GetExpireTime(); expires != nil && !expires.IsValid() {
		return nil, &orders.Error{Outcome: orders.NotPlacedByThisCall, Err: InvalidRequest(Violation{Field: "expire_time", Description: "must be from year 1 to year 9999"})}
	}
	receipt, err := s.place(ctx, req, inputs)
	if err != nil {
		return nil, aboutModel(err, req.GetModelId())
	}
	update := s.reportOrder(ctx, req, receipt)
	return &easelv1.CreateGenerationResponse{Generation: s.attributedMessage(update, s.attributionOfOrder(ctx, receipt)), Replayed: receipt.Replayed}, nil
}

// attributionOfOrder returns the attribution of an order: its owner, caller, model and labels. The attribution comes
// from the receipt or, if the receipt has none, from the ledger. It is empty if the ledger is unavailable.
func (s *generations) attributionOfOrder(ctx context.Context, receipt orders.Receipt) ledger.Attribution {
	if receipt.Attribution != nil {
		return *receipt.Attribution
	}
	own, _ := s.cfg.Orders.Owned(ctx, orderer(ctx), receipt.Generation.ID)
	return own[receipt.Generation.ID]
}

// reportOrder reports a new order to the hub and returns the state of its generation. It does not report an order
// that an earlier call placed more than [lifecycle.VisibleAfter] ago, because the hub may have a more recent state.
func (s *generations) reportOrder(ctx context.Context, req *easelv1.CreateGenerationRequest, receipt orders.Receipt) watch.Update {
	if receipt.Replayed && time.Since(receipt.Placed) > lifecycle.VisibleAfter {
		return watch.Update{Version: receipt.Generation.Version()}
	}
	return s.cfg.Hub.Created(ctx, auth.Of(ctx).APIKey, receipt.Generation, req.GetModelId(), receipt.Placed)
}

func (s *generations) place(ctx context.Context, req *easelv1.CreateGenerationRequest, inputs json.RawMessage) (orders.Receipt, error) {
	caller := auth.Of(ctx)
	return s.cfg.Orders.Place(ctx, caller.APIKey, orders.Request{
		Caller: caller.Caller, ModelID: req.GetModelId(), Inputs: inputs,
		IdempotencyKey: req.GetIdempotencyKey(), UpstreamKey: auth.Of(ctx).APIKey.IdempotencyKey(req.GetIdempotencyKey()),
		MaxCostCents: req.MaxCostCents, Labels: req.GetLabels(), Terms: s.terms(ctx, req),
		ExpireTime: expireTime(req.GetExpireTime()), OrderID: orderID(ctx),
	})
}

// expireTime converts the expire_time of a request. The zero time means that the request has no expire_time. A time before
// 1970 becomes the first microsecond of 1970, which is also in the past.
func expireTime(sent *timestamppb.Timestamp) time.Time {
	first := time.UnixMicro(1)
	switch {
	case sent == nil:
		return time.Time{}
	case sent.AsTime().Before(first):
		return first
	}
	return sent.AsTime()
}

// GetGeneration returns the state that an open watch has observed, unless that state is older than the request allows.
// Otherwise it reads the generation from the catalog.
func (s *generations) GetGeneration(ctx context.Context, req *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
	seen, err := s.visibleOrder(ctx, req.GetGenerationId())
	if err != nil {
		return nil, err
	}
	update, ok := s.cfg.Hub.Peek(auth.Of(ctx).APIKey, req.GetGenerationId())
	if !ok || isStale(update, req.GetMaxStaleness()) {
		if update, err = s.read(ctx, req.GetGenerationId(), seen); err != nil {
			return nil, err
		}
	}
	if update.State == catalog.StateDeleted {
		return nil, noGeneration(req.GetGenerationId())
	}
	return &easelv1.GetGenerationResponse{Generation: s.attributedMessage(update, seen.Attribution)}, nil
}

// isStale reports whether a state was observed longer ago than limit. If limit is nil, no state is stale. If limit is 0,
// every state is stale.
func isStale(u watch.Update, limit *durationpb.Duration) bool {
	return limit != nil && (limit.AsDuration() == 0 || time.Since(u.ObserveTime) > limit.AsDuration())
}

// read reads a generation from the catalog and notifies its watchers. If the state is missing from the ledger, read
// also records it there.
func (s *Service) read(ctx context.Context, id string, seen order) (watch.Update, error) {
	read, err := s.cfg.Catalog.Generation(ctx, auth.Of(ctx).APIKey, id)
	if err != nil {
		return s.fallback(ctx, id, err)
	}
	return s.cfg.Hub.Observe(ctx, auth.Of(ctx).APIKey, read, seen.mayLack(read)), nil
}

// fallback returns the state of a generation that could not be read from the catalog. If the catalog has no such
// generation, the state comes from the hub, which remembers new orders, or from the ledger. In all other cases,
// fallback returns err.
func (s *Service) fallback(ctx context.Context, id string, err error) (watch.Update, error) {
	if isMissing(err) {
		if update, ok := s.cfg.Hub.NotYetVisible(auth.Of(ctx).APIKey, id); ok {
			return update, nil
		}
		if recorded, ok := s.recordedState(ctx, id, err); ok {
			return watch.Update{Version: recorded}, nil
		}
	}
	return watch.Update{}, aboutGeneration(err, id)
}

// recordedState returns the recorded state of a generation for which the catalog has returned err. See
// [orders.Orders.NotFound].
func (s *Service) recordedState(ctx context.Context, id string, err error) (catalog.Version, bool) {
	return s.cfg.Orders.NotFound(ctx, auth.Of(ctx).APIKey, viewer(ctx), id, err)
}

// DeleteGeneration deletes a generation. Only an operator may delete another owner's generation. Such a deletion is
// recorded in the audit log before it starts.
func (s *generations) DeleteGeneration(ctx context.Context, req *easelv1.DeleteGenerationRequest) (*easelv1.DeleteGenerationResponse, error) {
	id := req.GetGenerationId()
	err := s.mayDelete(ctx, id)
	if err == nil {
		err = s.deleteWithCopy(ctx, id, req.GetForce())
	}
	if err != nil && (!isMissing(err) || !req.GetAllowMissing()) {
		return nil, err
	}
	return &easelv1.DeleteGenerationResponse{}, nil
}

// deleteWithCopy deletes a generation and the copy of its result. Unless isForced is true, it returns an error if the
// generation is not finished or may still be refunded. It deletes the copy even if the catalog no longer has the generation.
// It does not check whether the caller may delete the generation.
func (s *generations) deleteWithCopy(ctx context.Context, id string, isForced bool) (err error) {
	if !isForced {
		err = s.checkFinished(ctx, id)
	}
	if err != nil && !isMissing(err) {
		return err
	}
	if failed := s.auditDeletion(ctx, id); failed != nil {
		return failed
	}
	if err == nil {
		err = s.deleteInCatalog(ctx, id)
	}
	if isMissing(err) && auth.Of(ctx).SharesAPIKey() { // with forwarded API keys, Easel copies no results
		if failed := s.cfg.Orders.Ledger.DiscardContent(ctx, viewer(ctx), id); failed != nil {
			return failed
		}
	}
	return err
}

// deleteInCatalog deletes a generation in the catalog and records the deletion.
func (s *generations) deleteInCatalog(ctx context.Context, id string) error {
	err := s.cfg.Catalog.Delete(ctx, auth.Of(ctx).APIKey, id)
	if isMissing(err) {
		s.recordedState(ctx, id, err) // repeated NOT_FOUND errors make the generation count as deleted
	}
	if err != nil {
		return aboutGeneration(err, id)
	}
	s.cfg.Hub.Deleted(ctx, auth.Of(ctx).APIKey, id)
	return nil
}

// checkFinished returns an error if a generation is not finished. It also returns an error if the generation may still be
// refunded, because Easel can't see the refund of a deleted generation. The state is read from the catalog and not
// taken from a watch, because a deletion can't be undone.
func (s *generations) checkFinished(ctx context.Context, id string) error {
	update, err := s.read(ctx, id, order{ordered: true})
	if err != nil {
		return err
	}
	finished := update.State.Terminal()
	if finished && update.State == catalog.StateFailed {
		if finished, err = s.cfg.Orders.IsSettled(ctx, id); err != nil {
			return err
		}
	}
	if !finished {
		return Fail(easelv1.ErrorReason_GENERATION_ACTIVE,
			"the render is not finished or may still be refunded; to delete it anyway, set force")
	}
	return nil
}

// isMissing reports whether err means that the catalog does not have the requested record.
func isMissing(err error) bool { return catalog.KindOf(err) == catalog.KindNotFound }

// LimitsOf converts a budget in the callers file to the limits that the ledger checks.
func LimitsOf(b auth.Budget) ledger.Limits {
	return ledger.Limits{DailyCents: b.DailyCents, MonthlyCents: b.MonthlyCents}
}

// terms returns a function that looks up the limits for the caller's order in the current callers file. The function returns
// an error if the caller was removed, or if the order lacks a label that the team requires.
func (s *Service) terms(ctx context.Context, req *easelv1.CreateGenerationRequest) func() (orders.Terms, error) {
	caller := auth.Of(ctx)
	return func() (orders.Terms, error) {
		newer, err := s.Renewed(caller)
		if err != nil {
			return orders.Terms{}, err
		}
		rules := newer.Limits.Labels
		if err := missingLabels(rules.Required, req.GetLabels()); err != nil {
			return orders.Terms{}, err
		}
		return orders.Terms{
			Limits: LimitsOf(newer.Limits.Budget), Total: LimitsOf(newer.Total.Budget), Labels: labelLimits(rules.Budgets, req.GetLabels()),
			Refused: !newer.MayUse(req.GetModelId()),
		}, nil
	}
}

// missingLabels returns an error that lists the required labels that have no value. It returns nil if all of them have values.
func missingLabels(required []string, labels map[string]string) error {
	var missing []Violation
	for _, name := range required {
		if labels[name] == "" {
			missing = append(missing, Violation{Field: "labels." + name, Description: "is required by your team; add this label to the order"})
		}
	}
	if missing == nil {
		return nil
	}
	return InvalidRequest(missing...)
}

// labelLimits returns the budget limits for the labels that an order has. The keys of the map are label names. The map
// is nil if there are no such limits.
func labelLimits(budgets map[string]auth.Budget, labels map[string]string) (limits map[string]ledger.Limits) {
	for name, budget := range budgets {
		if labels[name] == "" {
			continue
		}
		if limits == nil {
			limits = map[string]ledger.Limits{}
		}
		limits[name] = LimitsOf(budget)
	}
	return limits
}
