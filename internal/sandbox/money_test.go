package sandbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestChargeEqualsQuotedPrice(t *testing.T) {
	sh := open(t, fastConfig())
	prices := map[string]bool{}
	for _, body := range []string{
		haiku,
		small,
		`{"modelId":"studio/essay","inputs":{"prompt":"x","paragraphs":9}}`,
		`{"modelId":"studio/essay","inputs":{"prompt":"` + strings.Repeat("long ", 200) + `","paragraphs":9}}`,
		`{"modelId":"studio/landscape","inputs":{"prompt":"x","size":"640x400"}}`,
		`{"modelId":"studio/landscape","inputs":{"prompt":"x","size":"640x400","steps":50}}`,
		`{"modelId":"studio/landscape","inputs":{"prompt":"x","size":"640x400","quality":"fine"}}`,
		`{"modelId":"studio/abstract","inputs":{"prompt":"x","size":"320x200","density":0.2}}`,
		`{"modelId":"studio/print","inputs":{"prompt":"x"}}`,
	} {
		before := sh.audit().BalanceCents
		price := sh.do("POST", "/quote", body).want(t, 200, "").record(t)["priceCents"].(json.Number)
		record := sh.do("POST", "/generations", body).want(t, 201, "").record(t)
		if record["costCents"] != price || fmt.Sprint(before-sh.audit().BalanceCents) != price.String() {
			t.Errorf("%.60s: quoted %s, cost %v", body, price, record["costCents"])
		}
		prices[price.String()] = true
	}
	if len(prices) < 8 {
		t.Errorf("got the prices %v, want at least 8 different prices", prices)
	}
	me := sh.do("GET", "/me", "").record(t)
	if got := fmt.Sprint(me["balanceCents"]); got != fmt.Sprint(sh.audit().BalanceCents) {
		t.Errorf("GET /me returned the balance %s", got)
	}
}

func TestConcurrentCreatesNeverOverspendBalance(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "catalog.db")} {
		sh := open(t, sandbox.Config{Path: path, Speed: 0.001})
		for _, c := range []struct{ creates, balance int }{{2, 1}, {2, 1}, {2, 1}, {2, 1}, {32, 5}, {8, 0}} {
			sh.key = sh.newKey(int64(c.balance))
			statuses := sendTogether(t, c.creates, func(int) reply { return sh.do("POST", "/generations", haiku) })
			if statuses[201] != c.balance || statuses[402] != c.creates-c.balance {
				t.Errorf("%d orders with a balance of %d cents: statuses are %v", c.creates, c.balance, statuses)
			}
			if a := sh.audit(); a.BalanceCents != 0 || a.ChargeCents != int64(c.balance) {
				t.Errorf("balance %d after charges of %d", a.BalanceCents, a.ChargeCents)
			}
		}
	}
}

func TestConcurrentOrdersWithSameIdempotencyKeyAreChargedOnce(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "catalog.db")} {
		sh := open(t, sandbox.Config{Path: path, Speed: 0.001})
		for round := range 10 {
			key := fmt.Sprint("k", round)
			var ids [16]any
			statuses := sendTogether(t, len(ids), func(i int) reply {
				r := sh.do("POST", "/generations", []string{haiku, small}[i%2], "Idempotency-Key", key)
				ids[i] = r.record(t)["id"] // nil if the response is an error
				return r
			})
			named := slices.DeleteFunc(ids[:], func(id any) bool { return id == nil })
			if len(slices.Compact(named)) != 1 {
				t.Errorf("orders with one idempotency key have different IDs: %v", named)
			}
			if statuses[201] != 1 || statuses[200] != 7 || statuses[422] != 8 {
				t.Errorf("the statuses are %v, want one 201, seven 200 and eight 422", statuses)
			}
			if a := sh.audit(); a.ChargesByIdempotencyKey[key] != 1 || len(a.Generations) != round+1 {
				t.Errorf("%d charges for the key, %d generations", a.ChargesByIdempotencyKey[key], len(a.Generations))
			}
		}
	}
}

func TestIdempotencyKeyWithDifferentBodyIsRejected(t *testing.T) {
	sh := open(t, fastConfig())
	id := sh.create(haiku, "Idempotency-Key", "k")
	sh.do("POST", "/generations", small, "Idempotency-Key", "k").want(t, 422, "IDEMPOTENCY_KEY_REUSED")

	reordered := `{ "inputs": {"prompt": "the sea"}, "modelId": "studio/haiku" }`
	r := sh.do("POST", "/generations", reordered, "Idempotency-Key", "k").want(t, 200, "")
	if r.record(t)["id"] != id || r.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeating the order with reordered members returned %s", r.body)
	}
	mine := sh.key
	sh.key = sh.newKey(5)
	sh.create(haiku, "Idempotency-Key", "k") // allowed, because each API key has its own idempotency keys
	sh.audit()
	sh.key = mine
}

func TestRejectedCreateDoesNotUseUpIdempotencyKey(t *testing.T) {
	sh := open(t, fastConfig())
	sh.key = sh.newKey(0)
	sh.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 402, "INSUFFICIENT_BALANCE")
	if err := sh.s.TopUp(t.Context(), sh.key, 1, "more"); err != nil {
		t.Fatal(err)
	}
	sh.create(haiku, "Idempotency-Key", "k")
	sh.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 200, "")
	if a := sh.audit(); a.BalanceCents != 0 || a.ChargesByIdempotencyKey["k"] != 1 {
		t.Errorf("the audit is %+v, want one charge and no balance", a)
	}
}

func TestDeletionDoesNotFreeIdempotencyKey(t *testing.T) {
	sh := open(t, fastConfig())
	id := sh.create(haiku, "Idempotency-Key", "k")
	sh.do("DELETE", "/generations/"+id, "").want(t, 204, "")
	if got := sh.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 200, "").record(t)["id"]; got != id {
		t.Errorf("id is %v, want %s", got, id)
	}
}

func TestTheDailyCapCountsTheChargesOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{DailyCapCents: 3})
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		for range 2 {
			b.create(haiku)
		}
		b.create(doomed)
		time.Sleep(time.Minute) // waits for the refund of the failed render, which must not reduce the day's charges
		b.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 409, "API_KEY_DAILY_CAP")
		b.do("POST", "/quote", haiku).want(t, 200, "")
		time.Sleep(time.Until(midnight) - time.Second)
		b.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 409, "API_KEY_DAILY_CAP")
		time.Sleep(2 * time.Second)
		b.create(haiku, "Idempotency-Key", "k")
		if got := b.do("GET", "/me", "").record(t)["spentTodayCents"]; got != json.Number("1") {
			t.Errorf("spentTodayCents is %v", got)
		}
	})
}

func TestDailyCapOfAPIKeyOverridesDefault(t *testing.T) {
	sh := open(t, sandbox.Config{Speed: 1000, DailyCapCents: 1})
	for cap, status := range map[int64]int{0: 409, 2: 201, -1: 201} {
		key, err := sh.s.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 10, DailyCapCents: cap})
		if err != nil {
			t.Fatal(err)
		}
		sh.key = key
		sh.create(haiku)
		if r := sh.do("POST", "/generations", haiku); r.status != status {
			t.Errorf("cap %d: status %d, want %d", cap, r.status, status)
		}
	}
}

func TestSixtyFourWritersNeverSeeALockedDatabase(t *testing.T) {
	sh := open(t, sandbox.Config{Path: filepath.Join(t.TempDir(), "catalog.db"), Speed: 5000, FailureRate: 0.3})
	if err := sh.s.TopUp(t.Context(), sh.key, 100_000, ""); err != nil {
		t.Fatal(err)
	}
	statuses := sendTogether(t, 64, func(i int) (r reply) {
		for n := range 6 {
			r = sh.do("POST", "/generations", haiku, "Idempotency-Key", fmt.Sprintf("%d-%d", i, n/2)).want(t, 201-n%2, "")
		}
		sh.do("GET", "/generations", "").want(t, 200, "")
		return r
	})
	if statuses[200] != 64 {
		t.Errorf("the statuses are %v, want 64 times 200", statuses)
	}
	if a := sh.audit(); len(a.ChargesByIdempotencyKey) != 192 || a.ChargeCents != 192 {
		t.Errorf("the audit has %d keys and charges of %d cents, want 192 and 192", len(a.ChargesByIdempotencyKey), a.ChargeCents)
	}
}

func TestCanceledCreateIsCommittedCompletelyOrNotAtAll(t *testing.T) {
	sh := open(t, sandbox.Config{Path: filepath.Join(t.TempDir(), "catalog.db"), Speed: 5000})
	var answered atomic.Int64
	var group errgroup.Group
	group.SetLimit(8)
	for i := range 200 {
		group.Go(func() error {
			stay := time.Minute
			if i%2 == 0 {
				stay = time.Duration(i) * 50 * time.Microsecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), stay)
			defer cancel()
			if res, err := sh.c.Do(sh.newRequest(ctx, "POST", "/generations", haiku, "Idempotency-Key", fmt.Sprintf("k%d", i))); err == nil {
				answered.Add(1)
				res.Body.Close()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of 200 creates got a response", answered.Load())
	if n := answered.Load(); n == 0 || n == 200 {
		t.Errorf("%d of 200 creates got a response; the test needs clients that wait and clients that disconnect", n)
	}
	if committed := len(sh.audit().Generations); int64(committed) < answered.Load() {
		t.Errorf("%d creates got a response, %d are committed", answered.Load(), committed)
	}
}

func TestLedgerIsAppendOnlyAndAPIKeysAreHashed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	sh := open(t, sandbox.Config{Path: path})
	sh.create(haiku)
	if err := sh.s.Close(); err != nil {
		t.Fatal(err)
	}
	sh.reopen()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"UPDATE ledger SET cents = 1000000", "DELETE FROM ledger"} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	var hits int
	if err := db.QueryRow(`SELECT COUNT(*) FROM api_keys WHERE CAST(key_hash AS TEXT) LIKE '%live%'`).Scan(&hits); err != nil || hits != 0 {
		t.Errorf("%d keys are stored in plaintext, %v", hits, err)
	}
}

func TestReopenedDatabaseCreatesDifferentAPIKeys(t *testing.T) {
	cfg := sandbox.Config{Path: filepath.Join(t.TempDir(), "catalog.db"), Seed: 3}
	seen := map[string]bool{}
	for range 3 {
		s, err := sandbox.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		key, err := s.CreateKey(t.Context(), sandbox.KeyConfig{})
		if err != nil || seen[key] {
			t.Errorf("got the key %s and the error %v, want a new key", key, err)
		}
		seen[key] = true
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAuditDetectsInconsistentAccounts(t *testing.T) {
	sound := func() sandbox.Audit {
		return sandbox.Audit{
			Entries: []sandbox.Entry{
				{Kind: "top_up", Cents: 10, BalanceCents: 10},
				{Kind: "charge", Cents: -4, BalanceCents: 6},
				{Kind: "refund", Cents: 4, BalanceCents: 10},
			},
			Generations: []sandbox.AuditedGeneration{{ID: "g", Status: "refunded", Charges: 1, Refunds: 1}},
			TopUpCents:  10, ChargeCents: 4, RefundCents: 4, BalanceCents: 10,
			ChargesByIdempotencyKey: map[string]int{"k": 1},
		}
	}
	if err := sound().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*sandbox.Audit){
		"wrong balance":             func(a *sandbox.Audit) { a.BalanceCents-- },
		"wrong running balance":     func(a *sandbox.Audit) { a.Entries[1].BalanceCents = 7 },
		"debt":                      func(a *sandbox.Audit) { a.Entries[0].Cents = 1 },
		"two charges":               func(a *sandbox.Audit) { a.Generations[0].Charges = 2 },
		"no charge":                 func(a *sandbox.Audit) { a.Generations[0].Charges = 0 },
		"two refunds":               func(a *sandbox.Audit) { a.Generations[0].Refunds = 2 },
		"refund of a success":       func(a *sandbox.Audit) { a.Generations[0].Status = "succeeded" },
		"refunded without a refund": func(a *sandbox.Audit) { a.Generations[0].Refunds = 0 },
		"key charged twice":         func(a *sandbox.Audit) { a.ChargesByIdempotencyKey["k"] = 2 },
	} {
		a := sound()
		if spoil(&a); a.Check() == nil {
			t.Errorf("%s was not detected", name)
		}
	}
}

// sendTogether sends n calls concurrently. It returns the number of responses with each status.
func sendTogether(t *testing.T, n int, sendOne func(i int) reply) map[int]int {
	t.Helper()
	replies := make([]reply, n)
	start := make(chan struct{})
	var group errgroup.Group
	for i := range n {
		group.Go(func() error {
			<-start
			replies[i] = sendOne(i)
			return nil
		})
	}
	close(start)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	statuses := map[int]int{}
	for _, r := range replies {
		statuses[r.status]++
	}
	return statuses
}
