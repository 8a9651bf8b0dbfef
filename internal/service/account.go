package service

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

type accounts struct {
	*Service
	easelv1.UnimplementedAccountServiceServer
}

// GetAccount reads the balance, and the owner's budgets.
func (s *accounts) GetAccount(ctx context.Context, _ *easelv1.GetAccountRequest) (*easelv1.GetAccountResponse, error) {
	account, err := s.cfg.Catalog.Account(ctx, credential(ctx))
	if err != nil {
		return nil, err
	}
	budgets, err := s.cfg.Orders.Budgets(ctx, *orderer(ctx), limits(ctx))
	if err != nil {
		return nil, err
	}
	return &easelv1.GetAccountResponse{Account: accountOf(who(ctx), account, budgets)}, nil
}

// WatchAccount sends the account, and each change of the balance or of one of the owner's budgets.
func (s *accounts) WatchAccount(req *easelv1.WatchAccountRequest, stream grpc.ServerStreamingServer[easelv1.WatchAccountResponse]) error {
	ctx := stream.Context()
	w := &watchOfAccount{stream: stream, call: who(ctx), known: s.stillKnown(ctx)}
	err := s.closes(s.cfg.Hub.WatchAccount(ctx, watch.AccountRequest{
		Credential: credential(ctx),
		Balance:    w.call.seesAccount(),
		Budgets:    s.budgetsReader(ctx),
		Heartbeat:  req.GetHeartbeatInterval().AsDuration(),
		Until:      s.until(),
		Stall:      s.cfg.SendTimeout,
	}, w.deliver))
	if closing := closingMessage(err); closing != nil {
		out := s.sender(stream)
		_ = out.send(&easelv1.WatchAccountResponse{Event: &easelv1.WatchAccountResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now()})
	}
	return err
}

// budgetsReader gives what reads the budgets of the owner of a call, for all who watch them: after its end too, and
// by the limits of then. It is nil where an owner can't have any.
func (s *accounts) budgetsReader(ctx context.Context) func(context.Context) (any, error) {
	if who(ctx).listed == nil {
		return nil
	}
	owner := *orderer(ctx)
	return func(ctx context.Context) (any, error) {
		return s.cfg.Orders.Budgets(ctx, owner, LimitsOf(s.cfg.Callers.list.Newest().Team(owner)))
	}
}

// watchOfAccount sends updates and heartbeats of the account.
type watchOfAccount struct {
	stream grpc.ServerStreamingServer[easelv1.WatchAccountResponse]
	call   call
	known  func() error // the caller may still call
}

// deliver sends an event.
func (w *watchOfAccount) deliver(event watch.Event) error {
	if err := w.known(); err != nil {
		return err
	}
	out := &easelv1.WatchAccountResponse{EmitTime: timestamppb.Now()}
	if event.Account != nil {
		budgets, _ := event.Account.Budgets.([]ledger.Budget)
		out.Event = &easelv1.WatchAccountResponse_Update{Update: &easelv1.AccountUpdate{
			Account: accountOf(w.call, event.Account.Account, budgets), Initial: event.Account.Initial,
		}}
	} else {
		out.Event = &easelv1.WatchAccountResponse_Heartbeat{Heartbeat: heartbeatMessage(w.call, *event.Heartbeat)}
	}
	return w.stream.SendMsg(out)
}

// accountOf is the account as a caller may see it: what it may not see is absent.
func accountOf(c call, account catalog.Account, budgets []ledger.Budget) *easelv1.Account {
	if !c.seesAccount() {
		account.BalanceCents, account.Extra = nil, nil
	}
	out := accountMessage(account)
	out.Budgets = budgetMessages(budgets)
	return out
}
