package service

import (
	"context"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
)

type accounts struct {
	*Service
	easelv1.UnimplementedAccountServiceServer
}

// GetAccount returns the owner's budgets from the ledger. If the caller may see the account, it also returns the
// balance from the catalog.
func (s *accounts) GetAccount(ctx context.Context, _ *easelv1.GetAccountRequest) (*easelv1.GetAccountResponse, error) {
	account := catalog.Account{ObserveTime: time.Now()}
	if auth.Of(ctx).SeesAccount {
		var err error
		if account, err = s.cfg.Catalog.Account(ctx, auth.Of(ctx).APIKey); err != nil {
			return nil, err
		}
	}
	budgets, err := s.cfg.Orders.Ledger.Budgets(ctx, *orderer(ctx), LimitsOf(auth.Of(ctx).Limits.Budget))
	if err != nil {
		return nil, err
	}
	out := accountMessage(account)
	out.Budgets = budgetMessages(budgets)
	return &easelv1.GetAccountResponse{Account: out}, nil
}
