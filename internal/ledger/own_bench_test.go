package ledger_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
)

func BenchmarkIDsThatNobodyHas(b *testing.B) {
	l, err := ledger.Open(b.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(b.TempDir(), "book.db"), Catalog: "c"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ids, owner := make([]string, 1000), "studio"
	for n := range ids {
		ids[n] = fmt.Sprint("gen_made_up_", n)
	}
	for b.Loop() {
		if _, err := l.Own(b.Context(), &owner, ids...); err != nil {
			b.Fatal(err)
		}
	}
}
