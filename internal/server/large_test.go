package server_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// answerWith adds a list of numbers, of the given size in bytes, to the catalog's responses to reads of a generation.
func answerWith(s *stack, bytes int) *sandbox.Injected {
	numbers := slices.Repeat([]any{1}, bytes/len("1,"))
	return s.sandbox.Inject(sandbox.Fault{Route: "GET /generations/{id}", Set: map[string]any{"weights": numbers}})
}

// A field of a response may have at most 100,000 values.
func TestALargeAnswerArrivesAndATooLargeOneWithoutItsMembers(t *testing.T) { // fault D6
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		id := create(t, c, order(t, text, "k", "a quiet sea")).GetGenerationId()
		read := &easelv1.GetGenerationRequest{GenerationId: id, MaxStaleness: &durationpb.Duration{}}
		for _, row := range []struct {
			bytes, numbers int
			omitted        string
		}{{190_000, 95_000, ""}, {900_000, 0, "upstream_fields"}, {2_000_000, 0, "upstream_fields"}} {
			large := answerWith(s, row.bytes)
			got := &easelv1.GetGenerationResponse{}
			if err := c.call(t.Context(), "GenerationService/GetGeneration", read, got); err != nil {
				t.Fatalf("%d bytes of numbers: %v", row.bytes, err)
			}
			large.Remove()
			if large.Fired() != 1 {
				t.Errorf("%d bytes of numbers were answered %d times", row.bytes, large.Fired())
			}
			g := got.GetGeneration()
			numbers := g.GetUpstreamFields().GetFields()["weights"].GetListValue().GetValues()
			if len(numbers) != row.numbers || strings.Join(g.GetOmittedFields(), " ") != row.omitted || g.GetInputs().GetFields()["prompt"].GetStringValue() != "a quiet sea" {
				t.Errorf("%d bytes of numbers: there are %d in an answer of %d bytes without %q", row.bytes, len(numbers), proto.Size(got), g.GetOmittedFields())
			}
		}
	})
}
