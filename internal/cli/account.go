package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type accountCmd struct {
	callFlags
	Watch bool `help:"Go on, and tell each change of the balance or of a budget, until interrupted."`
}

// Run shows the balance of the key, and the budgets.
func (c *accountCmd) Run(ctx context.Context, s *session) error {
	if c.Watch {
		return s.watchAccount(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, questionLimit))
	defer cancel()
	answer, err := s.Accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
	if err != nil {
		return err
	}
	balance := balanceOf(answer.Account)
	return s.answer(answer.Account, balance, func() {
		if answer.Account.BalanceCents == nil {
			balance = "not shown: it is for operators, or the catalog does not tell it"
		}
		fields := [][2]string{{"balance", balance}, {"observed", formatTime(answer.Account.ObserveTime)}}
		for _, b := range answer.Account.Budgets {
			fields = append(fields, [2]string{budgetWord(b) + " budget", budgetText(b, answer.Account.CurrencyCode, s.OutStyle)})
		}
		s.Fields(fields)
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

// budgetText draws how much of a budget is gone, and says until when.
func budgetText(b *easelv1.Budget, currency string, look terminal.Style) string {
	share := 1.0
	if b.LimitCents > 0 {
		share = float64(b.SpentCents+b.ReservedCents) / float64(b.LimitCents)
	}
	colour := terminal.Green
	switch {
	case share >= 1:
		colour = terminal.Red
	case share >= 0.8:
		colour = terminal.Yellow
	}
	return look.Bar(share, 20) + " " + look.Paint(colour, goneOf(b, currency)) + ", until " + formatTime(b.ResetTime)
}

// goneOf is how much of a budget is gone.
func goneOf(b *easelv1.Budget, currency string) string {
	text := Money(b.SpentCents+b.ReservedCents, currency) + " of " + Money(b.LimitCents, currency)
	if b.ReservedCents > 0 {
		text += " (" + Money(b.ReservedCents, currency) + " reserved)"
	}
	return text
}

// watchAccount tells each change of the account until ctx ends.
func (s *session) watchAccount(ctx context.Context) error {
	v, seen := newWatchView(s, s.OutStyle, s.Print), false
	defer v.listen("WatchAccount", "")()
	for account, err := range s.WatchAccount(ctx) {
		switch {
		case err == nil && s.json:
			v.tell(compactJSON(account.Raw))
		case err == nil && s.quiet:
			v.tell(balanceOf(account.Raw))
		case err == nil:
			v.tell(v.clock() + "  " + accountLine(account.Raw))
		case errors.Is(ctx.Err(), context.DeadlineExceeded) && seen:
			return nil // --timeout says how long to watch
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return &Problem{Exit: ExitRetry, Text: "the account was not read when --timeout ran out"}
		default:
			return err
		}
		seen = true
	}
	return nil
}

// accountLine is the account on one line. A caller that may not see the balance is not told that it is unknown.
func accountLine(a *easelv1.Account) string {
	var facts []string
	if a.BalanceCents != nil || len(a.Budgets) == 0 {
		facts = append(facts, "balance "+balanceOf(a))
	}
	for _, b := range a.Budgets {
		facts = append(facts, budgetWord(b)+" "+goneOf(b, a.CurrencyCode))
	}
	return strings.Join(facts, ", ")
}
