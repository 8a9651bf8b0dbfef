package cli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

type accountStream = grpc.ServerStreamingServer[easelv1.WatchAccountResponse]

// account is one with a balance and what is spent of a day's budget of 20.00 EUR; below 0 there is no budget.
func account(balance *int64, spent int64) *easelv1.Account {
	a := &easelv1.Account{BalanceCents: balance, CurrencyCode: "EUR"}
	if spent >= 0 {
		a.Budgets = []*easelv1.Budget{{Window: easelv1.BudgetWindow_BUDGET_WINDOW_DAY, LimitCents: 2000, SpentCents: spent, ReservedCents: 10}}
	}
	return a
}

func accountUpdate(a *easelv1.Account) *easelv1.WatchAccountResponse {
	return &easelv1.WatchAccountResponse{Event: &easelv1.WatchAccountResponse_Update{Update: &easelv1.AccountUpdate{Account: a}}}
}

// changing is a server whose account changes over two streams, and that then does not know the caller any more.
func changing(t *testing.T) *scripted {
	streams := 0
	return &scripted{accounts: func(_ *easelv1.WatchAccountRequest, s accountStream) error {
		switch streams++; streams {
		case 1:
			_ = s.Send(accountUpdate(account(proto.Int64(5000), 100)))
			_ = s.Send(&easelv1.WatchAccountResponse{Event: &easelv1.WatchAccountResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{}}})
			_ = s.Send(accountUpdate(account(proto.Int64(4900), 100)))
			_ = s.Send(&easelv1.WatchAccountResponse{Event: &easelv1.WatchAccountResponse_Closing{Closing: &easelv1.StreamClosing{RetryDelay: durationpb.New(time.Second)}}})
			return failing(codes.Unavailable, "SERVER_DRAINING")
		case 2:
			_ = s.Send(accountUpdate(account(proto.Int64(4900), 100))) // nothing new
			_ = s.Send(accountUpdate(account(proto.Int64(4900), 200)))
			return failing(codes.Unauthenticated, "CALLER_UNKNOWN")
		}
		t.Error("the account is watched again under a token that the server does not know")
		return failing(codes.Unauthenticated, "CALLER_UNKNOWN")
	}}
}

func TestAWatchOfTheAccountTellsEachChangeOverSeveralStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got := easelRun(t.Context(), changing(t).serve(t), "account", "--watch")
		var lines []string
		for _, line := range linesOf(got.stdout) {
			_, text, _ := strings.Cut(line, "  ") // after the time
			lines = append(lines, text)
		}
		want := []string{
			"balance 50.00 EUR, day 1.10 EUR of 20.00 EUR (0.10 EUR reserved)",
			"balance 49.00 EUR, day 1.10 EUR of 20.00 EUR (0.10 EUR reserved)",
			"balance 49.00 EUR, day 2.10 EUR of 20.00 EUR (0.10 EUR reserved)",
		}
		if strings.Join(lines, "\n") != strings.Join(want, "\n") || got.exit != ExitCredential {
			t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
		}
		if took := time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("it came again after %v, and the server had asked for 1 s", took)
		}
	})
}

func TestAWatchOfTheAccountWritesADocumentForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := easelRun(t.Context(), changing(t).serve(t), "account", "--watch", "-o", "json")
		lines := linesOf(got.stdout)
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "{") || !strings.Contains(lines[1], `"4900"`) || !strings.Contains(lines[2], `"200"`) {
			t.Errorf("printed\n%s%s", got.stdout, got.stderr)
		}
	})
}

func TestAWatchOfTheAccountEndsWithItsTimeOrItsReader(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		leave time.Duration
		tells bool
		exit  int
	}{
		"time":                    {[]string{"account", "--watch", "--timeout", "30s"}, time.Hour, true, ExitOK},
		"time, with nothing read": {[]string{"account", "--watch", "--timeout", "30s"}, time.Hour, false, ExitRetry},
		"interrupted":             {[]string{"account", "--watch"}, 10 * time.Second, true, ExitInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := (&scripted{accounts: func(_ *easelv1.WatchAccountRequest, s accountStream) error {
					for test.tells {
						_ = s.Send(accountUpdate(account(nil, -1)))
						select {
						case <-s.Context().Done():
							return s.Context().Err()
						case <-time.After(5 * time.Second):
						}
					}
					<-s.Context().Done()
					return s.Context().Err()
				}}).serve(t)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				defer time.AfterFunc(test.leave, leave).Stop()
				got := easelRun(ctx, dial, test.args...)
				if got.exit != test.exit || len(linesOf(got.stdout)) > 1 || strings.Contains(got.stdout, "unknown") != test.tells {
					t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
				}
			})
		})
	}
}
