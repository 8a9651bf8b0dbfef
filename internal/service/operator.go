package service

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/easel-grpc/easel/internal/gate"
)

var errNoOperator = status.Error(codes.PermissionDenied, "this caller is no operator: operator: true in the callers file makes it one")

// Operator gives the name of the operator that the authorization of a request proves, which is no call of the contract. Its
// errors are statuses.
func (s *Service) Operator(ctx context.Context, authorization []string) (name string, err error) {
	ctx, err = s.Authenticate(metadata.NewIncomingContext(ctx, metadata.MD{"authorization": authorization}), nil, &operatorAttempt{ctx: ctx, turns: s.operators})
	if err != nil {
		return "", Status(err).Err()
	}
	if c := who(ctx); c.operator {
		return c.caller, nil
	}
	return "", errNoOperator
}

// operatorsAtOnce is how many signatures are verified at a time of tokens that come to the admin address: however many are
// forged, those of callers have the processors.
const operatorsAtOnce = 2

// operatorWait is how long the token of a listed subject waits behind them.
const operatorWait = time.Second

func newOperators() *gate.Gate {
	return gate.New(gate.Config{Places: [gate.Classes]int{operatorsAtOnce}})
}

// operatorAttempt is one that comes to the admin address. A token that names a listed subject waits for its turn, each
// subject for its own; any other is refused where no turn is free.
type operatorAttempt struct {
	ctx   context.Context //nolint:containedctx // of the request
	turns *gate.Gate
	turn  *gate.Turn
}

// Begin implements [callers.Attempt].
func (a *operatorAttempt) Begin(claimed string) (err error) {
	if r := (gate.Request{Owner: claimed, Patience: operatorWait}); claimed != "" {
		a.turn, err = a.turns.Enter(a.ctx, r)
	} else {
		a.turn, err = a.turns.Try(r)
	}
	if err != nil {
		return Status(err).Err()
	}
	return nil
}

// End implements [callers.Attempt].
func (a *operatorAttempt) End(bool) { a.turn.End(gate.Answer{}) }
