package server

import (
	"cmp"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// mostName is how long a name of a caller's may be in the log, in bytes, and mostIDs how many generations of a watch have
// theirs.
const mostName, mostIDs = 128, 5

// names are what the line and the span of a call name, so that somebody who searches for it finds the call.
type names struct {
	generation, model, idempotencyKey string
	generations                       []string            // of a watch that names some
	answered                          *easelv1.Generation // nil: none
}

// namesOf are the names in a request or an answer.
func namesOf(message any) (n names) {
	if m, ok := message.(interface{ GetGenerationId() string }); ok {
		n.generation = m.GetGenerationId()
	}
	if m, ok := message.(interface{ GetGenerationIds() []string }); ok {
		n.generations = m.GetGenerationIds()
	}
	if m, ok := message.(interface{ GetModelId() string }); ok {
		n.model = m.GetModelId()
	}
	if m, ok := message.(interface{ GetIdempotencyKey() string }); ok {
		n.idempotencyKey = m.GetIdempotencyKey()
	}
	if m, ok := message.(interface{ GetGeneration() *easelv1.Generation }); ok {
		n.answered = m.GetGeneration()
		n.generation, n.model = cmp.Or(n.answered.GetGenerationId(), n.generation), cmp.Or(n.answered.GetModelId(), n.model)
	}
	return n
}

// attrs are the names of a call, of its answer and of its order, as its line has them.
func (n names) attrs(answer names, order string) (all []slog.Attr) {
	for _, one := range [][2]string{
		{"generation", cmp.Or(n.generation, answer.generation)},
		{"model", cmp.Or(n.model, answer.model)},
		{"order", order},
		{"idempotency_key", n.idempotencyKey},
	} {
		if one[1] != "" {
			all = append(all, slog.String(one[0], cut(one[1])))
		}
	}
	if len(n.generations) == 0 {
		return all
	}
	var first []string
	for _, id := range n.generations[:min(len(n.generations), mostIDs)] {
		first = append(first, cut(id))
	}
	return append(all, slog.Int("generations", len(n.generations)), slog.Any("generation_ids", first))
}

// cut cuts off what is too long of a name.
func cut(name string) string { return strings.ToValidUTF8(name[:min(len(name), mostName)], "") }

// attributes are the names of a request or an answer, as its span has them.
func (n names) attributes() []attribute.KeyValue {
	all, state := make([]attribute.KeyValue, 0, 5), ""
	if n.answered != nil {
		state = strings.ToLower(strings.TrimPrefix(n.answered.GetState().String(), "STATE_"))
	}
	for _, one := range [][2]string{{"easel.generation.id", n.generation}, {"easel.model.id", n.model}, {"easel.generation.state", state}} {
		if one[1] != "" {
			all = append(all, attribute.String(one[0], one[1]))
		}
	}
	if n.answered != nil && n.answered.CostCents != nil {
		all = append(all, attribute.Int64("easel.cost_cents", n.answered.GetCostCents()))
	}
	return all
}
