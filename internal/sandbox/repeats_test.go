package sandbox_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// buyHaiku orders a haiku with an API key and an idempotency key. It checks the response's status and returns the
// generation ID.
func (sh *account) buyHaiku(apiKey, key string, status int) string {
	sh.t.Helper()
	r := sh.do("POST", "/generations", haiku, "Authorization", "Bearer "+apiKey, "Idempotency-Key", key)
	r.want(sh.t, status, "")
	id, _ := r.record(sh.t)["id"].(string)
	return id
}

func TestAPIKeysOfOneAccountShareIdempotencyKeys(t *testing.T) {
	sh := open(t, fastConfig())
	next, err := sh.s.AddKey(t.Context(), sh.key, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sh.s.AddKey(t.Context(), sh.key, next); err == nil {
		t.Error("a key was added twice")
	}
	first := sh.buyHaiku(sh.key, "k", http.StatusCreated)
	if again := sh.buyHaiku(next, "k", http.StatusOK); again != first {
		t.Errorf("one idempotency key returned %s and %s for two API keys of one account", first, again)
	}
	if err := sh.s.RevokeKey(t.Context(), sh.key); err != nil {
		t.Fatal(err)
	}
	sh.buyHaiku(sh.key, "k", http.StatusUnauthorized)
	if again := sh.buyHaiku(next, "k", http.StatusOK); again != first {
		t.Errorf("after the rotation the idempotency key returned %s", again)
	}
}

func TestIdempotencyKeysCanBeScopedToAPIKey(t *testing.T) {
	cfg := fastConfig()
	cfg.Repeats.PerAPIKey = true
	sh := open(t, cfg)
	next, err := sh.s.AddKey(t.Context(), sh.key, "")
	if err != nil {
		t.Fatal(err)
	}
	first := sh.buyHaiku(sh.key, "k", http.StatusCreated)
	if again := sh.buyHaiku(sh.key, "k", http.StatusOK); again != first {
		t.Errorf("one key returned %s and %s", first, again)
	}
	if other := sh.buyHaiku(next, "k", http.StatusCreated); other == first {
		t.Error("an order with a second API key returned the first API key's order")
	}
	audit, err := sh.s.Audit(t.Context(), sh.key)
	if err != nil || audit.ChargesByIdempotencyKey["k"] != 2 || audit.Check() == nil {
		t.Errorf("the audit does not report two charges for one idempotency key: %v, %v", audit.ChargesByIdempotencyKey, err)
	}
	sh.key = sh.newKey(0) // a new API key, because the audit at the end of the test would report the old key's two charges for one idempotency key
}

func TestIdempotencyKeysCanExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{Repeats: sandbox.Repeats{Forget: time.Hour}})
		key := b.key
		first := b.create(haiku, "Idempotency-Key", "k")
		time.Sleep(time.Hour - time.Second)
		if again := b.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 200, "").record(t)["id"]; again != first {
			t.Errorf("before the idempotency key expired, the repeat returned %s, want %s", again, first)
		}
		time.Sleep(2 * time.Second)
		if again := b.create(haiku, "Idempotency-Key", "k"); again == first {
			t.Error("the idempotency key did not expire after an hour")
		}
		b.key = b.newKey(1000) // a new API key, because the audit at the end of the test would report the old key's two charges for one idempotency key
		if audit, err := b.s.Audit(t.Context(), key); err != nil || audit.ChargesByIdempotencyKey["k"] != 2 {
			t.Errorf("the charges are %v, want 2 for the key k, %v", audit.ChargesByIdempotencyKey, err)
		}
	})
}
