package cli

import (
	"context"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

type accountCmd struct{ callFlags }

// Run shows the balance of the key.
func (c *accountCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		answer, err := s.accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
		if err != nil {
			return err
		}
		balance := balanceOf(answer.Account)
		s.answer(answer.Account, balance, func() {
			s.printFields([][2]string{
				{"balance", balance},
				{"observed", formatTime(answer.Account.ObserveTime)},
			})
		})
		return nil
	})
}

func balanceOf(a *easelv1.Account) string {
	if a.BalanceCents == nil {
		return "unknown"
	}
	return Money(a.GetBalanceCents(), a.CurrencyCode)
}
