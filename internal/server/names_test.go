package server

import (
	"context"
	"strings"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestLineOfACallHasShortNames(t *testing.T) {
	studio := servertest.NewStudio()
	studio.Get = func(_ context.Context, req *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
		return &easelv1.GetGenerationResponse{Generation: &easelv1.Generation{GenerationId: req.GetGenerationId(), ModelId: strings.Repeat("é", maxNameBytes)}}, nil
	}
	s := serve(t, studio)
	if _, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: strings.Repeat("g", 200)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	lines := s.Lines(t, "call")
	if len(lines) != 1 || lines[0]["generation"] != strings.Repeat("g", maxNameBytes) || lines[0]["model"] != strings.Repeat("é", maxNameBytes/2) || lines[0]["order"] != nil {
		t.Errorf("logged %v", lines)
	}
}
