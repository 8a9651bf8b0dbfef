package sandbox_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// buy posts a haiku under an API key and an idempotency key, and gives the id of what it got.
func (sh *shop) buy(apiKey, key string, status int) string {
	sh.t.Helper()
	r := sh.do("POST", "/generations", haiku, "Authorization", "Bearer "+apiKey, "Idempotency-Key", key)
	r.want(sh.t, status, "")
	id, _ := r.record(sh.t)["id"].(string)
	return id
}

func TestAnAccountMayHaveSeveralAPIKeys(t *testing.T) {
	sh := open(t, fast())
	next, err := sh.s.AddKey(t.Context(), sh.key, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sh.s.AddKey(t.Context(), sh.key, next); err == nil {
		t.Error("a key was added twice")
	}
	first := sh.buy(sh.key, "k", http.StatusCreated)
	if again := sh.buy(next, "k", http.StatusOK); again != first {
		t.Errorf("one idempotency key gave %s and %s under two keys of an account", first, again)
	}
	if err := sh.s.RevokeKey(t.Context(), sh.key); err != nil {
		t.Fatal(err)
	}
	sh.buy(sh.key, "k", http.StatusUnauthorized)
	if again := sh.buy(next, "k", http.StatusOK); again != first {
		t.Errorf("after the rotation it gave %s", again)
	}
}

func TestACatalogMayKeepIdempotencyKeysByAPIKey(t *testing.T) {
	cfg := fast()
	cfg.Repeats.PerAPIKey = true
	sh := open(t, cfg)
	next, err := sh.s.AddKey(t.Context(), sh.key, "")
	if err != nil {
		t.Fatal(err)
	}
	first := sh.buy(sh.key, "k", http.StatusCreated)
	if again := sh.buy(sh.key, "k", http.StatusOK); again != first {
		t.Errorf("one key gave %s and %s", first, again)
	}
	if other := sh.buy(next, "k", http.StatusCreated); other == first {
		t.Error("the other API key found the order of the first")
	}
	books, err := sh.s.Audit(t.Context(), sh.key)
	if err != nil || books.ChargesByIdempotencyKey["k"] != 2 || books.Check() == nil {
		t.Errorf("the books do not show what it bought twice: %v, %v", books.ChargesByIdempotencyKey, err)
	}
	sh.key = sh.newKey(0) // whose books are right
}

func TestACatalogMayCheckTheBalanceFirst(t *testing.T) {
	for name, moneyFirst := range map[string]bool{"key first": false, "money first": true} {
		cfg := fast()
		cfg.Repeats.MoneyFirst = moneyFirst
		sh := open(t, cfg)
		sh.key = sh.newKey(1) // the price of one haiku
		first := sh.buy(sh.key, "k", http.StatusCreated)
		status := http.StatusOK
		if moneyFirst {
			status = http.StatusPaymentRequired
		}
		sh.buy(sh.key, "k", status)
		if err := sh.s.TopUp(t.Context(), sh.key, 100, "more"); err != nil {
			t.Fatal(err)
		}
		if again := sh.buy(sh.key, "k", http.StatusOK); again != first {
			t.Errorf("%s: after a top-up it gave %s, want %s", name, again, first)
		}
	}
}

func TestACatalogMayForgetIdempotencyKeys(t *testing.T) {
	begin, passed := time.Now(), atomic.Int64{}
	cfg := fast()
	cfg.Now = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
	cfg.Repeats.Forget = time.Hour
	sh := open(t, cfg)
	first := sh.buy(sh.key, "k", http.StatusCreated)
	passed.Store(int64(time.Hour - time.Second))
	if again := sh.buy(sh.key, "k", http.StatusOK); again != first {
		t.Errorf("within the hour it gave %s, want %s", again, first)
	}
	passed.Store(int64(time.Hour + time.Second))
	if again := sh.buy(sh.key, "k", http.StatusCreated); again == first {
		t.Error("the key is remembered after the hour")
	}
	sh.key = sh.newKey(0) // whose books are right
}
