package cli

import easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"

// account returns an account with a balance and a daily budget of 20.00 EUR with some spent. Below 0 it has no budget.
func account(balance *int64, spent int64) *easelv1.Account {
	a := &easelv1.Account{BalanceCents: balance, CurrencyCode: "EUR"}
	if spent >= 0 {
		a.Budgets = []*easelv1.Budget{{Window: easelv1.BudgetWindow_BUDGET_WINDOW_DAY, LimitCents: 2000, SpentCents: spent, ReservedCents: 10}}
	}
	return a
}
