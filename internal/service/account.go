package service

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

type accounts struct {
	*Service
	easelv1.UnimplementedAccountServiceServer
}

// GetAccount reads the balance, where the caller may see it, and the owner's budgets: these take no catalog.
func (s *accounts) GetAccount(ctx context.Context, _ *easelv1.GetAccountRequest) (*easelv1.GetAccountResponse, error) {
	now := money{observed: time.Now()}
	if who(ctx).seesAccount() {
		account, err := s.cfg.Catalog.Account(ctx, credential(ctx))
		if err != nil {
			return nil, err
		}
		now.account, now.observed = account, account.ObserveTime
	}
	budgets, err := s.cfg.Orders.Ledger.Budgets(ctx, *orderer(ctx), LimitsOf(who(ctx).team()))
	if err != nil {
		return nil, err
	}
	now.budgets = budgets
	return &easelv1.GetAccountResponse{Account: now.message()}, nil
}

// WatchAccount sends the account, and each change of the balance or of one of the owner's budgets.
func (s *accounts) WatchAccount(req *easelv1.WatchAccountRequest, stream grpc.ServerStreamingServer[easelv1.WatchAccountResponse]) error {
	ctx := stream.Context()
	w := s.watchOfAccount(ctx, s.sender(stream), s.budgetsReader(ctx))
	defer w.leave()
	err := s.closes(w.run(ctx, req.GetHeartbeatInterval().AsDuration(), s.until(ctx)))
	if closing := closingMessage(err); closing != nil {
		_ = w.out.send(&easelv1.WatchAccountResponse{Event: &easelv1.WatchAccountResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now()})
	}
	return err
}

// budgetsReader gives what reads the budgets of the owner of a call, for all who watch them: by the limits of then. It is
// nil where an owner can't have any.
func (s *Service) budgetsReader(ctx context.Context) func(context.Context) ([]ledger.Budget, error) {
	if who(ctx).listed == nil {
		return nil
	}
	owner := *orderer(ctx)
	return func(ctx context.Context) ([]ledger.Budget, error) {
		return s.cfg.Orders.Ledger.Budgets(ctx, owner, LimitsOf(s.cfg.Callers.List().Team(owner)))
	}
}

// watchOfAccount joins those who watch the account.
func (s *Service) watchOfAccount(ctx context.Context, out deadlineSender, budgets func(context.Context) ([]ledger.Budget, error)) *watchOfAccount {
	cred := credential(ctx)
	w := &watchOfAccount{
		out: out, call: who(ctx), known: s.stillKnown(ctx), attendance: s.cfg.Hub.Attend(ctx, cred),
		balance: s.balances.join(cred.Tenant, func(ctx context.Context) (catalog.Account, error) {
			return s.cfg.Hub.ReadAccount(ctx, cred)
		}),
	}
	if budgets != nil {
		w.budgets = s.budgets.join(*orderer(ctx), budgets)
	}
	return w
}

// money is what an update of the account tells.
type money struct {
	account  catalog.Account // empty where it is withheld or not known yet
	budgets  []ledger.Budget
	observed time.Time
}

func (m money) message() *easelv1.Account {
	m.account.ObserveTime = m.observed
	out := accountMessage(m.account)
	out.Budgets = budgetMessages(m.budgets)
	return out
}

func (m money) equal(o money) bool {
	return sameBalance(m.account, o.account) && sameBudgets(m.budgets, o.budgets)
}

func sameBalance(a, b catalog.Account) bool {
	x, y := a.BalanceCents, b.BalanceCents
	return x == y || x != nil && y != nil && *x == *y
}

func sameBudgets(a, b []ledger.Budget) bool { return slices.Equal(a, b) }
