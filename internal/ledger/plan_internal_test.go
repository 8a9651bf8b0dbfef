package ledger

import (
	"strings"
	"testing"
)

// Else each order reads all orders of its caller, or of its owner.
func TestTheKeyOfAnOrderIsSoughtInAnIndex(t *testing.T) {
	l, err := Open(t.Context(), Config{URL: InMemory, Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	rows, err := l.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+l.dialect.words.Replace(lookUpKey), make([]any, 6)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	sought := 0
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(step, "orders") {
			continue
		}
		if sought++; !strings.Contains(step, "INDEX") || !strings.Contains(step, "idempotency_key=?") && !strings.Contains(step, "orders_open (owner=? AND retry_time>?") {
			t.Errorf("a step is %q", step)
		}
	}
	if err := rows.Err(); err != nil || sought != 4 {
		t.Errorf("%d steps, %v", sought, err)
	}
}
