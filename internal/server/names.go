package server

import (
	"cmp"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
)

// maxNameBytes is the maximum size of a name in a log line. It is needed because callers choose some of
// the names.
const maxNameBytes = 128

// names contains the IDs and names that occur in a request or a response. They are added to the log line
// and the span of the call.
type names struct {
	generation, model, idempotencyKey string
	generations                       int                 // number of generation IDs in a watch request
	answered                          *easelv1.Generation // generation that the response contains, or nil
}

// namesOf returns the IDs and names that occur in a request or a response.
func namesOf(message any) (n names) {
	if m, ok := message.(interface{ GetGenerationId() string }); ok {
		n.generation = m.GetGenerationId()
	}
	if m, ok := message.(interface{ GetGenerationIds() []string }); ok {
		n.generations = len(m.GetGenerationIds())
	}
	if m, ok := message.(interface{ GetModelId() string }); ok {
		n.model = m.GetModelId()
	}
	if m, ok := message.(interface{ GetIdempotencyKey() string }); ok {
		n.idempotencyKey = m.GetIdempotencyKey()
	}
	if m, ok := message.(interface{ GetGeneration() *easelv1.Generation }); ok {
		n.answered = m.GetGeneration()
		n.generation, n.model = n.answered.GetGenerationId(), n.answered.GetModelId()
	}
	return n
}

// nameAttrs returns log attributes for the caller, and for the IDs and names in the request and the
// response.
func (c *call) nameAttrs() (all []slog.Attr) {
	caller, answer := auth.Of(c.ctx), namesOf(c.answer)
	for _, one := range [][2]string{
		{"caller", caller.Caller},
		{"api_key", caller.APIKey.Tenant.Fingerprint()},
		{"generation", cmp.Or(c.names.generation, answer.generation)},
		{"model", cmp.Or(c.names.model, answer.model)},
		{"order", c.order},
		{"idempotency_key", c.names.idempotencyKey},
	} {
		if one[1] != "" {
			all = append(all, slog.String(one[0], strings.ToValidUTF8(one[1][:min(len(one[1]), maxNameBytes)], "")))
		}
	}
	if c.names.generations > 0 {
		all = append(all, slog.Int("generations", c.names.generations))
	}
	return all
}

// attributes returns span attributes for the generation ID, the model ID, the state and the cost. It
// omits unknown values.
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
