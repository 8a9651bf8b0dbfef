package cli

import (
	"context"
	"strings"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type accountCmd struct{ callFlags }

// Run prints the account's balance, and the budgets of the caller's team.
func (c *accountCmd) Run(ctx context.Context, s *session) error {
	account, err := s.Account(ctx)
	if err != nil {
		return err
	}
	raw, balance, shown := account.Raw, "unknown", "not shown: only operators can see it, or the catalog does not report it"
	if raw.BalanceCents != nil {
		balance = Money(raw.GetBalanceCents(), raw.CurrencyCode)
		shown = balance
	}
	return s.printResult(raw, balance, func() {
		fields := [][2]string{{"balance", shown}, {"observed", formatTime(raw.ObserveTime)}}
		for _, b := range raw.Budgets {
			window := strings.ToLower(strings.TrimPrefix(b.Window.String(), "BUDGET_WINDOW_"))
			fields = append(fields, [2]string{window + " budget", budgetText(b, raw.CurrencyCode, s.OutStyle)})
		}
		s.Fields(fields)
	})
}

// budgetText formats a budget: the amount spent or reserved, the limit and the reset time. The amounts are red if
// the whole limit is used, yellow from 80 % of the limit, and green otherwise.
func budgetText(b *easelv1.Budget, currency string, look terminal.Style) string {
	used, share, colour := b.SpentCents+b.ReservedCents, 1.0, terminal.Green
	if b.LimitCents > 0 {
		share = float64(used) / float64(b.LimitCents)
	}
	switch {
	case share >= 1:
		colour = terminal.Red
	case share >= 0.8:
		colour = terminal.Yellow
	}
	text := Money(used, currency) + " of " + Money(b.LimitCents, currency)
	if b.ReservedCents > 0 {
		text += " (" + Money(b.ReservedCents, currency) + " reserved)"
	}
	return look.Paint(colour, text) + ", until " + formatTime(b.ResetTime)
}
