package cli

import (
	"context"
	"strconv"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

type quoteCmd struct {
	callFlags
	inputFlags
}

// Run prices inputs.
func (c *quoteCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		inputs, err := c.text(ctx, s)
		if err != nil {
			return err
		}
		answer, err := read(ctx, s, func() (*easelv1.QuoteGenerationResponse, error) {
			return s.generations.QuoteGeneration(ctx, &easelv1.QuoteGenerationRequest{ModelId: c.Model, InputsJson: inputs})
		})
		if err != nil {
			return err
		}
		q := answer.Quote
		s.answer(q, strconv.FormatInt(q.PriceCents, 10), func() {
			fields := [][2]string{{"price", Money(q.PriceCents, q.CurrencyCode)}}
			if q.BalanceCents != nil {
				fields = append(fields, [2]string{"balance", Money(q.GetBalanceCents(), q.CurrencyCode)})
			}
			if q.Affordable != nil && !q.GetAffordable() {
				fields = append(fields, [2]string{"missing", Money(q.PriceCents-q.GetBalanceCents(), q.CurrencyCode)})
			}
			s.printFields(fields)
		})
		return nil
	})
}
