package server_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"image"
	_ "image/png"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// IDs of models in the scenarios. A scenario is a test that runs four times: over gRPC and over REST, each with a
// forwarded API key and with a shared one.
const (
	picture = "studio/landscape"
	text    = "studio/haiku"
)

func inputs(t *testing.T, members map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(members)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func order(t *testing.T, model, key, prompt string) *easelv1.CreateGenerationRequest {
	t.Helper()
	members := map[string]any{"prompt": prompt}
	if model == picture {
		members["size"] = "64x40"
	}
	return &easelv1.CreateGenerationRequest{ModelId: model, IdempotencyKey: key, Inputs: inputs(t, members)}
}

// create places an order, which must succeed.
func create(t *testing.T, c caller, req *easelv1.CreateGenerationRequest) *easelv1.Generation {
	t.Helper()
	return createFully(t, c, req).GetGeneration()
}

// createFully is like create, but returns the complete response.
func createFully(t *testing.T, c caller, req *easelv1.CreateGenerationRequest) *easelv1.CreateGenerationResponse {
	t.Helper()
	resp := &easelv1.CreateGenerationResponse{}
	if err := c.call(t.Context(), "GenerationService/CreateGeneration", req, resp); err != nil {
		t.Fatal(err)
	}
	return resp
}

func get(t *testing.T, c caller, id string) (*easelv1.Generation, error) {
	t.Helper()
	return getWithin(t, c, id, durationpb.New(0))
}

// awaitGeneration waits up to 30 s until a generation is terminal or settled, depending on goal.
func awaitGeneration(t *testing.T, c caller, id string, goal easelv1.WatchUntil) *easelv1.Generation {
	t.Helper()
	resp := &easelv1.WaitGenerationResponse{}
	err := c.call(t.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{
		GenerationId: id, Timeout: durationpb.New(30 * time.Second), Until: goal,
	}, resp)
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetGeneration()
}

// collectUpdates watches a generation until the watch ends, and returns the updates.
func collectUpdates(t *testing.T, c caller, req *easelv1.WatchGenerationRequest) (updates []*easelv1.GenerationUpdate) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := c.watch(ctx, req, func(m *easelv1.WatchGenerationResponse) {
		if u := m.GetUpdate(); u != nil {
			updates = append(updates, u)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return updates
}

func last(t *testing.T, updates []*easelv1.GenerationUpdate) *easelv1.Generation {
	t.Helper()
	if len(updates) == 0 {
		t.Fatal("no update was sent")
	}
	return updates[len(updates)-1].GetGeneration()
}

func accountOf(t *testing.T, c caller) *easelv1.Account {
	t.Helper()
	resp := &easelv1.GetAccountResponse{}
	if err := c.call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, resp); err != nil {
		t.Fatal(err)
	}
	return resp.GetAccount()
}

// balance returns the balance of the API key's account. If callers share the API key, balance checks that the caller can't
// read the balance, and reads it as an operator.
func balance(t *testing.T, s *stack, c caller) int64 {
	t.Helper()
	account := accountOf(t, c)
	if s.sharesKey() {
		if account.BalanceCents != nil || len(account.GetUpstreamFields().GetFields()) > 0 {
			t.Errorf("%s can read the account: %v", s.caller, account)
		}
		account = accountOf(t, withKeyOf(c, operator))
	}
	return account.GetBalanceCents()
}

// quote returns the quote for an order. If callers share the API key, quote checks that the caller's quote hides the
// balance, and returns an operator's quote.
func quote(t *testing.T, s *stack, c caller, req *easelv1.CreateGenerationRequest) *easelv1.Quote {
	t.Helper()
	ask := func(c caller) *easelv1.Quote {
		resp := &easelv1.QuoteGenerationResponse{}
		if err := c.call(t.Context(), "GenerationService/QuoteGeneration", &easelv1.QuoteGenerationRequest{
			ModelId: req.GetModelId(), Inputs: req.GetInputs(),
		}, resp); err != nil {
			t.Fatal(err)
		}
		return resp.GetQuote()
	}
	quoted := ask(c)
	if s.sharesKey() {
		if quoted.BalanceCents != nil || quoted.Affordable != nil {
			t.Errorf("a quote reports the balance to %s: %v", s.caller, quoted)
		}
		price := quoted.GetPriceCents()
		if quoted = ask(withKeyOf(c, operator)); quoted.GetPriceCents() != price {
			t.Errorf("the quoted price is %d for the caller and %d for an operator", price, quoted.GetPriceCents())
		}
	}
	return quoted
}

func TestQuotedPriceIsCharged(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		before := balance(t, s, c)
		req := order(t, picture, "k", "a lake at dawn")
		quote := quote(t, s, c, req)
		if quote.GetBalanceCents() != before || !quote.GetAffordable() || quote.GetCurrencyCode() != "EUR" {
			t.Errorf("got the quote %v with a balance of %d", quote, before)
		}
		g := create(t, c, req)
		if g.GetCostCents() != quote.GetPriceCents() || g.GetCurrencyCode() != "EUR" {
			t.Errorf("cost %d, want the quoted price %d", g.GetCostCents(), quote.GetPriceCents())
		}
		if after := balance(t, s, c); before-after != quote.GetPriceCents() || quote.GetPriceCents() <= 0 {
			t.Errorf("balance %d before, %d after, quoted %d", before, after, quote.GetPriceCents())
		}
	})
}

func TestAPictureIsOrderedWatchedAndDownloaded(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake at dawn"))
		s.wantOwned(g)
		if g.GetState() != easelv1.State_STATE_QUEUED || g.GetTerminal() || g.GetModelId() != picture {
			t.Errorf("the new generation is %v", g)
		}
		var updates []*easelv1.GenerationUpdate
		var pushed []byte
		var summary *easelv1.ContentSummary
		err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId(), IncludeContent: true}, func(m *easelv1.WatchGenerationResponse) {
			if m.GetUpdate() != nil {
				updates = append(updates, m.GetUpdate())
			}
			pushed = append(pushed, m.GetContent().GetData()...)
			summary = cmp.Or(m.GetContent().GetSummary(), summary)
		})
		if err != nil || !updates[0].GetInitial() {
			t.Errorf("the watch ended with %v, and its first update is %v", err, updates[0])
		}
		end := last(t, updates)
		if end.GetState() != easelv1.State_STATE_SUCCEEDED || !end.GetTerminal() || end.GetFile() == nil || end.GetTerminalTime() == nil {
			t.Errorf("the last update is %v", end)
		}
		s.wantOwned(end)
		data, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: g.GetGenerationId()})
		if err != nil {
			t.Fatal(err)
		}
		img, format, err := image.Decode(bytes.NewReader(data))
		if err != nil || format != "png" || img.Bounds().Dx() != 64 {
			t.Errorf("the result is not a picture: %v %v", format, err)
		}
		if !bytes.Equal(pushed, data) || fmt.Sprintf("%x", sha256.Sum256(data)) != summary.GetSha256() {
			t.Errorf("the watch delivered %d of %d bytes, and the summary %v", len(pushed), len(data), summary)
		}
	})
}

func TestTextResultIsReturnedInGeneration(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		g := create(t, c, &easelv1.CreateGenerationRequest{
			ModelId: text, IdempotencyKey: "k", InputsJson: `{"prompt":"a lake at dawn","seed":9007199254740993}`,
		})
		// A double cannot represent this seed, so the server returns the seed as a string.
		if seed := g.GetInputs().GetFields()["seed"]; seed.GetStringValue() != "9007199254740993" {
			t.Errorf("the response has the seed %v", seed)
		}
		end := awaitGeneration(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		s.wantOwned(end)
		if lines := strings.Count(end.GetText().GetText(), "\n"); lines != 2 {
			t.Errorf("the haiku is %q", end.GetText().GetText())
		}
		_, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: g.GetGenerationId()})
		wantStatus(t, err, codes.FailedPrecondition, "NO_CONTENT", 400)
	})
}

func TestAFailedRenderIsRefundedToTheCent(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		before := balance(t, s, c)
		g := create(t, c, order(t, text, "k", "a [fail] at dawn"))
		if g.GetCostCents() == 0 { // checks the cost instead of the balance, because the balance may already include the refund
			t.Error("the order's cost is zero")
		}
		end := awaitGeneration(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_SETTLED)
		if end.GetState() != easelv1.State_STATE_REFUNDED || end.GetFailureMessage() == "" {
			t.Errorf("the settled generation is %v", end)
		}
		if after := balance(t, s, c); after != before {
			t.Errorf("balance %d before and %d after the refund", before, after)
		}
		if audit := s.audit(); audit.RefundCents != audit.ChargeCents || audit.RefundCents == 0 {
			t.Errorf("charged %d, refunded %d", audit.ChargeCents, audit.RefundCents)
		}
	})
}

func TestOrderWithLostResponseIsChargedOnce(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		lost := s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Reset: true})
		first := createFully(t, c, labeledOrder(t, text, "k", map[string]string{"campaign": "spring"}))
		again := createFully(t, c, labeledOrder(t, text, "k", map[string]string{"campaign": "autumn"}))
		if got := again.GetGeneration().GetLabels()["campaign"]; got != "spring" {
			t.Errorf("the repeated order has the label %q, want spring", got)
		}
		if one, other := first.GetGeneration().GetGenerationId(), again.GetGeneration().GetGenerationId(); one != other {
			t.Errorf("the same key returned %s and %s", one, other)
		}
		if first.GetReplayed() || !again.GetReplayed() {
			t.Errorf("replayed is %v in the first response and %v in the second", first.GetReplayed(), again.GetReplayed())
		}
		if n := s.sandbox.Requests()["POST /generations"]; n != 2 || lost.Fired() != 1 {
			t.Errorf("%d orders sent and %d responses lost, want 2 and 1", n, lost.Fired())
		}
		if n := s.audit().ChargesByIdempotencyKey; len(n) != 1 || n[s.sentAs("k")] != 1 {
			t.Errorf("the charges are %v, want one with the key %s", n, s.sentAs("k"))
		}
	})
}

func TestDeletingRenderEndsItsWatchWithoutError(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		id := g.GetGenerationId()
		err := c.call(t.Context(), "GenerationService/DeleteGeneration", &easelv1.DeleteGenerationRequest{GenerationId: id}, &easelv1.DeleteGenerationResponse{})
		wantStatus(t, err, codes.FailedPrecondition, "GENERATION_ACTIVE", 400)
		started, deleted := make(chan struct{}), make(chan error, 1)
		go func() {
			<-started
			deleted <- c.call(t.Context(), "GenerationService/DeleteGeneration",
				&easelv1.DeleteGenerationRequest{GenerationId: id, Force: true}, &easelv1.DeleteGenerationResponse{})
		}()
		var states []easelv1.State
		err = c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: id}, func(m *easelv1.WatchGenerationResponse) {
			if u := m.GetUpdate(); u != nil {
				states = append(states, u.GetGeneration().GetState())
			}
			if len(states) == 1 {
				close(started)
			}
		})
		if err != nil || len(states) != 2 || states[1] != easelv1.State_STATE_DELETED {
			t.Errorf("the watch received the states %v and ended with %v", states, err)
		}
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		_, err = get(t, c, id)
		wantStatus(t, err, codes.NotFound, "GENERATION_NOT_FOUND", 404)
		err = c.call(t.Context(), "GenerationService/DeleteGeneration",
			&easelv1.DeleteGenerationRequest{GenerationId: id, AllowMissing: true}, &easelv1.DeleteGenerationResponse{})
		if err != nil {
			t.Error("deleting a missing render with allow_missing:", err)
		}
	}, func(o *options) { o.sandbox.Speed = 0.1 })
}

func TestWaitReturnsLatestStateAfterTimeout(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		resp := &easelv1.WaitGenerationResponse{}
		err := c.call(t.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{
			GenerationId: g.GetGenerationId(), Timeout: durationpb.New(2 * time.Second),
		}, resp)
		if err != nil || resp.GetGeneration().GetState() != easelv1.State_STATE_QUEUED {
			t.Errorf("%v %v", resp, err)
		}
		_, err = downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: g.GetGenerationId(), WaitTimeout: durationpb.New(2 * time.Second)})
		wantStatus(t, err, codes.FailedPrecondition, "CONTENT_NOT_READY", 400)
	}, func(o *options) { o.sandbox.Speed = 0.1 })
}

func TestWaitReturnsBeforeCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, func(o *options) { o.sandbox.Speed, o.memory = 0.1, true })
		c := grpcCaller{s, s.key}
		g := create(t, c, order(t, picture, "k", "a lake"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		resp := &easelv1.WaitGenerationResponse{}
		if err := c.call(ctx, "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: g.GetGenerationId()}, resp); err != nil {
			t.Error(err)
		}
	})
}
