package ledger_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestTheStatementsOfOrdersAreKeptPreparedByAnyConnection(t *testing.T) {
	l := open(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"))
	place := func(from, to int) {
		for n := from; n < to; n++ {
			o := write(t, l, request(fmt.Sprint("k", n)))
			if got := conclude(t, l, o, lifecycle.Named, fmt.Sprint("g", n)); got != lifecycle.Replay {
				t.Errorf("order %d: %v", n, got)
			}
		}
	}
	place(0, 3)
	once, _ := l.Prepared()
	place(3, 10)
	if got, _ := l.Prepared(); got != once || once < 4 {
		t.Errorf("%d statements are kept after three orders, and %d after ten", once, got)
	}
	l.Reconnect()
	place(10, 13)
	if got, _ := l.Prepared(); got != once {
		t.Errorf("%d statements are kept, and %d after a new connection", once, got)
	}
}

func TestSoManyStatementsAreKeptPrepared(t *testing.T) {
	l := open(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"))
	several(t, l)
	studio := "studio"
	for n := range 1 << 7 { // each choice has a statement of its own
		f := ledger.Filter{Statuses: make([]lifecycle.Status, n>>3), Existing: n&1 > 0, Deleted: n&2 > 0}
		if n&4 > 0 {
			f.Owner = &studio
		}
		if _, err := l.List(t.Context(), f, ledger.Position{}, 10); err != nil {
			t.Fatal(err)
		}
	}
	if _, got := l.Prepared(); got != 100 {
		t.Errorf("%d statements are kept", got)
	}
	if all, err := l.List(t.Context(), ledger.Filter{}, ledger.Position{}, 10); err != nil || len(all) != 4 {
		t.Errorf("%d orders are listed, %v", len(all), err)
	}
}

func TestQuestionsAboutSomeGenerationsShareStatements(t *testing.T) {
	l := open(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"))
	ids := []string{"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"} // which nobody has
	own := func(most int) int {
		if _, err := l.Own(t.Context(), nil, ids[:most]...); err != nil {
			t.Fatal(err)
		}
		_, kept := l.Prepared()
		return kept
	}
	own(5) // the second time it is prepared
	five, eight := own(5), 0
	for most := 6; most <= 8; most++ {
		eight = own(most)
	}
	if five != eight {
		t.Errorf("%d statements are kept after one of five ids, and %d after those of six to eight", five, eight)
	}
}
