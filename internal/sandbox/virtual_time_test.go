package sandbox_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestSandboxRunsOnVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{})
		id := b.create(haiku)
		start := time.Now()
		time.Sleep(1000 * time.Hour) // in virtual time, this is fast only if an idle sandbox has no timers
		if b.status(id) != "succeeded" || time.Since(start) != 1000*time.Hour {
			t.Error("the render did not end")
		}
	})
}

func TestFailedGenerationIsRefundedOnceInEachRefundMode(t *testing.T) {
	for _, c := range []struct {
		way    sandbox.Refund
		states string
	}{
		{sandbox.RefundLater, "queued failed refunded"},
		{sandbox.RefundAtOnce, "queued refunded"},
		{sandbox.RefundSilent, "queued failed"},
	} {
		t.Run(c.states, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newAccount(t, sandbox.Config{Dialect: sandbox.Dialect{Refund: c.way}})
				id := b.create(doomed)
				states := "queued"
				for range 80 {
					time.Sleep(100 * time.Millisecond)
					if now := b.status(id); !strings.HasSuffix(states, now) {
						states += " " + now
					}
					b.audit()
				}
				if states != c.states {
					t.Errorf("states were %q, want %q", states, c.states)
				}
				if a := b.audit(); a.RefundCents != 1 || a.BalanceCents != 1000 {
					t.Errorf("refunds %d, balance %d, want 1 and 1000", a.RefundCents, a.BalanceCents)
				}
				if got := b.do("GET", "/generations/"+id, "").record(t)["failureReason"]; got != "The prompt asked for a failure." {
					t.Errorf("failureReason is %v", got)
				}
			})
		})
	}
}

func TestAuditReportsActualGenerationTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{RefundDelay: time.Hour})
		b.create(doomed, "Idempotency-Key", "k")
		time.Sleep(time.Second)
		good, ordered := b.create(small), time.Now().UTC()
		time.Sleep(30 * time.Minute)
		bad := b.audit().Generations[0]
		if bad.Status != "failed" || bad.RefundedAt != (time.Time{}) || bad.IdempotencyKey != "k" || bad.Model != "studio/haiku" {
			t.Errorf("the audit of the failed render is %+v", bad)
		}
		time.Sleep(time.Hour)
		bad = b.audit().Generations[0]
		if bad.Status != "refunded" || bad.RefundedAt.Sub(bad.FinishedAt) != time.Hour {
			t.Errorf("the audit of the refunded render is %+v", bad)
		}
		done := b.audit().Generations[1]
		shown := b.do("GET", "/generations/"+good, "").record(t)
		if !done.CreatedAt.Equal(ordered) || shown["finishedAt"] != done.FinishedAt.Format(time.RFC3339Nano) || !done.RefundedAt.IsZero() {
			t.Errorf("the audit of the succeeded render is %+v, and its record is %v", done, shown)
		}
	})
}

func TestConfiguredShareOfGenerationsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{FailureRate: 0.25})
		for range 200 {
			b.create(haiku)
		}
		time.Sleep(time.Hour)
		failed := 0
		for _, g := range b.audit().Generations {
			if g.Status == "refunded" {
				failed++
			}
		}
		if failed < 30 || failed > 70 {
			t.Errorf("%d of 200 renders failed, want 30 to 70", failed)
		}
	})
}

func TestTheSameSeedMakesTheSameHistory(t *testing.T) {
	history := func() (lines []string) {
		synctest.Test(t, func(t *testing.T) {
			b := newAccount(t, sandbox.Config{FailureRate: 0.3})
			for i := range 20 {
				b.create(haiku)
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			lines = []string{string(b.do("GET", "/generations", "").body), b.key}
		})
		return lines
	}
	if one, two := fmt.Sprint(history()), fmt.Sprint(history()); one != two {
		t.Errorf("two runs with the same seed differ:\n%.600s\n%.600s", one, two)
	}
}

func TestDeletingAnUnfinishedGenerationRefundsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{})
		id := b.create(haiku)
		b.do("DELETE", "/generations/"+id, "").want(t, 204, "")
		time.Sleep(time.Hour)
		if a := b.audit(); a.BalanceCents != 999 || len(a.Entries) != 2 || !a.Generations[0].Deleted || a.Generations[0].Status != "queued" {
			t.Errorf("the audit is %+v, want one charge and no refund", a)
		}
	})
}

func TestDeletingFailedGenerationRefundsItImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{RefundDelay: time.Hour})
		id := b.create(doomed)
		time.Sleep(time.Minute)
		if got := b.status(id); got != "failed" || b.audit().RefundCents != 0 {
			t.Fatalf("the status is %s, want failed without a refund", got)
		}
		b.do("DELETE", "/generations/"+id, "").want(t, 204, "")
		if a := b.audit(); a.RefundCents != 1 {
			t.Errorf("the refunds are %d cents, want 1", a.RefundCents)
		}
		time.Sleep(2 * time.Hour)
		if a := b.audit(); a.RefundCents != 1 {
			t.Errorf("two hours after the deletion the refunds are %d cents, want 1", a.RefundCents)
		}
	})
}
