package cli

import (
	"context"
	"fmt"
	"strings"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type accountCmd struct{ callFlags }

// Run shows the balance of the key, and the budgets.
func (c *accountCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		answer, err := s.accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
		if err != nil {
			return err
		}
		balance := balanceOf(answer.Account)
		s.answer(answer.Account, balance, func() {
			fields := [][2]string{
				{"balance", balance},
				{"observed", formatTime(answer.Account.ObserveTime)},
			}
			for _, b := range answer.Account.Budgets {
				fields = append(fields, [2]string{budgetWord(b) + " budget", budgetText(b, answer.Account.CurrencyCode, s.OutStyle)})
			}
			s.printFields(fields)
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

// budgetWord is the time that a budget is for.
func budgetWord(b *easelv1.Budget) string {
	return strings.ToLower(strings.TrimPrefix(b.Window.String(), "BUDGET_WINDOW_"))
}

// budgetWidth is that of the bar of a budget.
const budgetWidth = 20

// budgetText draws how much of a budget is gone, and says until when.
func budgetText(b *easelv1.Budget, currency string, look terminal.Style) string {
	gone, share := b.SpentCents+b.ReservedCents, 1.0
	if b.LimitCents > 0 {
		share = float64(gone) / float64(b.LimitCents)
	}
	colour := terminal.Green
	switch {
	case share >= 1:
		colour = terminal.Red
	case share >= 0.8:
		colour = terminal.Yellow
	}
	text := fmt.Sprintf("%s %s of %s", look.Bar(share, budgetWidth), look.Paint(colour, Money(gone, currency)), Money(b.LimitCents, currency))
	if b.ReservedCents > 0 {
		text += ", " + Money(b.ReservedCents, currency) + " of it reserved"
	}
	return text + ", until " + formatTime(b.ResetTime)
}
