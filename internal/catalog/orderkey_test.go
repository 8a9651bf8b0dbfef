package catalog_test

import (
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
)

// All processes and releases must send the same idempotency key for an order. With another key, a resent order would be
// placed and charged again.
func TestIdempotencyKeySentUnderSharedAPIKeyIsStable(t *testing.T) {
	shared := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("any") })
	for _, row := range []struct{ owner, key, want string }{
		{"", "k", "2e7c4dd946f3a6752c38c9a474871e9d88fefba0a119a506f95216fd86d1cec6"},
		{"shop", "k", "5a1e0b631b20dcd991318b732351d440d955cbaee81996ce1a3cff8ed39097e6"},
		{"shopk", "", "158d5c1d5c0c4c2a2f0d73eaa60ec7e0c9e9cd9a8a583288048d1deded5b97cc"},
		{"shop", "2", "e931de3d06e753a8e87c21a6525579491f5960936896503494fe7a4ba659e78e"},
	} {
		shared.Owner = row.owner
		if got := shared.IdempotencyKey(row.key); got != row.want {
			t.Errorf("key %q of owner %q: got %s, want %s", row.key, row.owner, got, row.want)
		}
	}
}

func TestForwardedAPIKeyLeavesIdempotencyKeyUnchanged(t *testing.T) {
	if got := catalog.Forwarded(catalog.NewSecret("any")).IdempotencyKey("monday 7"); got != "monday 7" {
		t.Errorf("got idempotency key %q, want it unchanged", got)
	}
}
