package service

import (
	"context"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

type models struct {
	*Service
	easelv1.UnimplementedModelServiceServer
}

// ListModels lists the models, from a copy where there is a good one.
func (s *models) ListModels(ctx context.Context, req *easelv1.ListModelsRequest) (*easelv1.ListModelsResponse, error) {
	all, err := s.copies.get(ctx, credential(ctx), "")
	if err != nil {
		return nil, err
	}
	items, next, err := page(all, everything, encodedModel.name, encodedModel.message, "models", req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &easelv1.ListModelsResponse{Models: items, NextPageToken: next}, nil
}

// GetModel gives one model, from a copy where there is a good one.
func (s *models) GetModel(ctx context.Context, req *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
	one, err := s.copies.get(ctx, credential(ctx), req.GetModelId())
	if err != nil {
		return nil, aboutModel(err, req.GetModelId())
	}
	return &easelv1.GetModelResponse{Model: one[0].message()}, nil
}
