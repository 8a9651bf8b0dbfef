package orders_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestOrderResentAfterBrokenResponseIsChargedOnce(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"reset before the response":   {AfterCommit: true, Reset: true},
		"response cut off":            {Cut: true, CutAfter: 10},
		"500 after the commit":        {AfterCommit: true, Status: 500, Body: "<html>oops</html>"},
		"503 before the commit":       {Status: 503},
		"200 with an unreadable body": {AfterCommit: true, Status: 200, Body: "hello"},
		"201 without an ID":           {AfterCommit: true, Status: 201, Body: `{"status":"queued"}`},
		"201 with an ID of 6 kB":      {AfterCommit: true, Status: 201, Body: `{"status":"queued","id":"` + strings.Repeat("x", 6<<10) + `"}`},
		"201 with a NUL in the ID":    {AfterCommit: true, Status: 201, Body: `{"status":"queued","id":"a\u0000b"}`},
		"201 with a slash in the ID":  {AfterCommit: true, Status: 201, Body: `{"status":"queued","id":"a/b"}`},
		"200 with the status error":   {AfterCommit: true, Status: 200, Body: `{"status":"error","id":"x"}`},
		"reset before the commit":     {Reset: true},
		"300 after the commit":        {AfterCommit: true, Redirect: "/elsewhere", Status: 300},
		"301 after the commit":        {AfterCommit: true, Redirect: "/elsewhere", Status: 301},
		"302 after the commit":        {AfterCommit: true, Redirect: "/elsewhere", Status: 302},
		"303 to a generation":         {AfterCommit: true, Redirect: sandbox.BasePath + "/generations/x", Status: 303},
		"304 after the commit":        {AfterCommit: true, Status: 304},
		"303 before the commit":       {Redirect: "/login", Status: 303},
		"408":                         {AfterCommit: true, Status: 408},
	} {
		t.Run(name, func(t *testing.T) {
			inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
				fault.Route, fault.Count = "POST /generations", 1
				fired := s.box.Inject(fault)
				s.mustCreate(s.order("k"))
				if fired.Fired() != 1 || s.posts() != 2 {
					t.Errorf("the fault fired %d times and %d orders were posted, want 1 and 2", fired.Fired(), s.posts())
				}
				s.wantCharges("k", 1)
			})
		})
	}
}

func TestUnknownOutcomeIsReturnedBeforeDeadline(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		lost := s.box.Inject(sandbox.Fault{Route: "POST /generations", AfterCommit: true, Reset: true})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := s.client.Create(ctx, s.cred, s.order("k"))
		s.wantKind(err, catalog.KindOutcomeUnknown)
		if ctx.Err() != nil {
			t.Error("the response arrived after the caller's deadline")
		}
		if lost.Fired() < 2 {
			t.Errorf("%d attempts within a second, want at least 2", lost.Fired())
		}
		s.box.ClearFaults()
		s.mustCreate(s.order("k"))
		s.wantCharges("k", 1)
	})
}

func TestConcurrentCallsWithOneIdempotencyKeyPlaceOneOrder(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Delay: sandbox.Delay(200 * time.Millisecond)})
		var all sync.WaitGroup
		ids := make([]string, 50)
		for i := range ids {
			all.Go(func() {
				g, err := s.create(s.order("k"))
				if err != nil {
					t.Error(err)
				}
				ids[i] = g.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] || id == "" {
				t.Errorf("got the generations %q and %q under one key", ids[0], id)
			}
		}
		if s.posts() != 1 {
			t.Errorf("%d orders were posted, want 1", s.posts())
		}
		s.wantCharges("k", 1)
	})
}

func TestOrderIsResentWhileIdempotencyKeyIsInProgress(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		busy := s.box.Inject(sandbox.Fault{Route: "POST /generations", Count: 2, Status: 409, Body: `{"code":"IN_PROGRESS"}`})
		s.mustCreate(s.order("k"))
		if busy.Fired() != 2 {
			t.Errorf("the fault fired %d times, want 2", busy.Fired())
		}
	})
}

func TestOrderIsNotSentIfPriceExceedsItsMaxCost(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		quote, err := s.client.Catalog.Quote(t.Context(), s.cred, "studio/haiku", s.order("").Inputs)
		if err != nil {
			t.Fatal(err)
		}
		dear := s.order("k")
		dear.MaxCostCents = new(quote.PriceCents - 1)
		_, err = s.create(dear)
		s.wantKind(err, catalog.KindPriceAboveLimit)
		if s.posts() != 0 {
			t.Error("an order above the limit was posted")
		}
		dear.MaxCostCents = new(quote.PriceCents)
		g := s.mustCreate(dear)
		if g.CostCents == nil || *g.CostCents != quote.PriceCents {
			t.Errorf("got the generation %+v, want a cost of %d cents", g, quote.PriceCents)
		}
	})
}

func TestRetryAfterUnknownOutcomeSkipsPriceCheck(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Hang: true})
		order := s.order("k")
		order.MaxCostCents = new(int64(1000))
		s.placeBriefly(order, catalog.KindOutcomeUnknown)
		order.MaxCostCents = new(int64(0)) // the repeat has a limit of 0, as if the price had risen above the limit
		s.mustCreate(order)
		s.wantCharges("k", 1)
	})
}
