package service

import (
	"context"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

type accounts struct {
	*Service
	easelv1.UnimplementedAccountServiceServer
}

// GetAccount reads the balance.
func (s *accounts) GetAccount(ctx context.Context, _ *easelv1.GetAccountRequest) (*easelv1.GetAccountResponse, error) {
	account, err := s.cfg.Catalog.Account(ctx, credential(ctx))
	if err != nil {
		return nil, err
	}
	return &easelv1.GetAccountResponse{Account: accountMessage(account)}, nil
}

type models struct {
	*Service
	easelv1.UnimplementedModelServiceServer
}

// ListModels lists the models.
func (s *models) ListModels(ctx context.Context, req *easelv1.ListModelsRequest) (*easelv1.ListModelsResponse, error) {
	all, err := s.cfg.Catalog.Models(ctx, credential(ctx))
	if err != nil {
		return nil, err
	}
	items, next, err := page(all, func(m catalog.Model) string { return m.ID }, "models", req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &easelv1.ListModelsResponse{NextPageToken: next}
	for _, m := range items {
		out.Models = append(out.Models, modelMessage(m))
	}
	return out, nil
}

// GetModel reads one model.
func (s *models) GetModel(ctx context.Context, req *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
	model, err := s.cfg.Catalog.Model(ctx, credential(ctx), req.GetModelId())
	if err != nil {
		return nil, aboutModel(err, req.GetModelId())
	}
	return &easelv1.GetModelResponse{Model: modelMessage(model)}, nil
}
