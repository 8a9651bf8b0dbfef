package service

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

type generations struct {
	*Service
	easelv1.UnimplementedGenerationServiceServer
}

// QuoteGeneration prices inputs, and checks whether the balance covers them.
func (s *generations) QuoteGeneration(ctx context.Context, req *easelv1.QuoteGenerationRequest) (*easelv1.QuoteGenerationResponse, error) {
	inputs, err := inputsBytes(req.GetInputs(), req.GetInputsJson())
	if err != nil {
		return nil, err
	}
	balance := s.balance(ctx)
	quote, err := s.cfg.Catalog.Quote(ctx, credential(ctx), req.GetModelId(), inputs)
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

// balance reads the balance meanwhile; nil where it can't be read, or is not the caller's business.
func (s *generations) balance(ctx context.Context) <-chan *int64 {
	out := make(chan *int64, 1)
	if !who(ctx).seesAccount() {
		out <- nil
		return out
	}
	go func() {
		account, err := s.cfg.Catalog.Account(ctx, credential(ctx))
		if err != nil {
			account.BalanceCents = nil
		}
		out <- account.BalanceCents
	}()
	return out
}

// CreateGeneration places a paid order.
func (s *generations) CreateGeneration(ctx context.Context, req *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
	inputs, err := inputsBytes(req.GetInputs(), req.GetInputsJson())
	if err != nil {
		return nil, &orderError{err, OrderNotPlacedByThisCall}
	}
	if len(req.GetLabels()) > 0 && s.cfg.Ledger == nil {
		return nil, &orderError{errNoLedger("labels"), OrderNotPlacedByThisCall}
	}
	receipt, err := s.cfg.Catalog.Create(ctx, credential(ctx), catalog.Order{
		ModelID:        req.GetModelId(),
		Inputs:         inputs,
		IdempotencyKey: upstreamIdempotencyKey(ctx, req.GetIdempotencyKey()),
		MaxCostCents:   req.MaxCostCents,
		Hold:           admission(ctx),
	})
	if err != nil {
		return nil, &orderError{aboutModel(err, req.GetModelId()), outcomeOf(credential(ctx), err)}
	}
	update := s.cfg.Hub.Created(ctx, credential(ctx), receipt.Generation, req.GetModelId(), receipt.Placed)
	return &easelv1.CreateGenerationResponse{Generation: generationMessage(update.Generation, update.Etag)}, nil
}

// GetGeneration gives the state of a running watch where that is fresh enough, else reads the catalog.
func (s *generations) GetGeneration(ctx context.Context, req *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
	update, ok := s.cfg.Hub.Peek(credential(ctx), req.GetGenerationId())
	if !ok || stale(update, req.GetMaxStaleness()) {
		var err error
		if update, err = s.read(ctx, req.GetGenerationId()); err != nil {
			return nil, err
		}
	}
	if update.Generation.State == catalog.StateDeleted {
		return nil, noGeneration(req.GetGenerationId())
	}
	return &easelv1.GetGenerationResponse{Generation: generationMessage(update.Generation, update.Etag)}, nil
}

// stale reports whether a state is older than the caller allows. Without a limit none is; with 0 each is.
func stale(u watch.Update, limit *durationpb.Duration) bool {
	return limit != nil && (limit.AsDuration() == 0 || time.Since(u.Generation.ObserveTime) > limit.AsDuration())
}

// read reads the catalog, and shares the answer with the watchers.
func (s *Service) read(ctx context.Context, id string) (watch.Update, error) {
	read, err := s.cfg.Catalog.Generation(ctx, credential(ctx), id)
	if missing(err) {
		if update, ok := s.cfg.Hub.NotYetVisible(credential(ctx), id); ok {
			return update, nil
		}
	}
	if err != nil {
		return watch.Update{}, aboutGeneration(err, id)
	}
	return s.cfg.Hub.Observe(ctx, credential(ctx), read), nil
}

// DeleteGeneration deletes a generation. Whether it is terminal is read from the catalog and
// not from a watch: a deletion can't be undone.
func (s *generations) DeleteGeneration(ctx context.Context, req *easelv1.DeleteGenerationRequest) (*easelv1.DeleteGenerationResponse, error) {
	id := req.GetGenerationId()
	if !req.GetForce() {
		update, err := s.read(ctx, id)
		switch {
		case missing(err) && req.GetAllowMissing():
			return &easelv1.DeleteGenerationResponse{}, nil
		case err != nil:
			return nil, err
		case !update.Generation.State.Terminal():
			return nil, Fail(codes.FailedPrecondition, "GENERATION_ACTIVE",
				"the render is not finished, and the catalog does not say what becomes of its price: set force to delete it all the same")
		}
	}
	err := s.cfg.Catalog.Delete(ctx, credential(ctx), id)
	if err != nil && (!missing(err) || !req.GetAllowMissing()) {
		return nil, aboutGeneration(err, id)
	}
	s.cfg.Hub.Deleted(ctx, credential(ctx), id)
	return &easelv1.DeleteGenerationResponse{}, nil
}

// missing reports whether err says that the catalog has no such record.
func missing(err error) bool { return catalog.KindOf(err) == catalog.KindNotFound }
