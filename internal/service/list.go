package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

// ListGenerations lists what the catalog lists.
func (s *generations) ListGenerations(ctx context.Context, req *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	filter := req.GetFilter()
	if len(filter.GetLabels()) > 0 || filter.GetOwner() != "" {
		return nil, errNoLedger("filters by label and owner")
	}
	all, err := s.cfg.Catalog.Generations(ctx, credential(ctx))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(g catalog.Version) bool { return !chooses(filter, g.Generation) })
	items, next, err := page(all, func(g catalog.Version) string { return g.ID }, listKind("generations", filter), req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &easelv1.ListGenerationsResponse{NextPageToken: next}
	for _, g := range items {
		out.Generations = append(out.Generations, generationMessage(g.Generation, g.Etag))
	}
	return out, nil
}

// chooses reports whether a filter chooses a generation by what the catalog says of it.
func chooses(filter *easelv1.GenerationFilter, g catalog.Generation) bool {
	return (filter.GetModelId() == "" || filter.GetModelId() == g.ModelID) &&
		(len(filter.GetStates()) == 0 || slices.Contains(filter.GetStates(), states[g.State]))
}

// listKind names a list in its page tokens by all that chooses its rows: a token is of no use for another list.
func listKind(name string, query ...proto.Message) string {
	digest := sha256.New()
	for _, q := range query {
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(q) // it was valid on the wire
		digest.Write(text)
	}
	return name + " " + hex.EncodeToString(digest.Sum(nil)[:8])
}
