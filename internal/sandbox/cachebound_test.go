package sandbox

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheCacheForgetsBeforeItGrowsTooLarge(t *testing.T) {
	c := newCache(100)
	fullest := 0
	for i := range 5000 {
		row := &kept{generation: generation{id: int64(i + 1), account: 1, publicID: fmt.Sprint(i), text: strings.Repeat("x", i)}}
		c.put(row)
		if i == 0 {
			c.putList(1, []*kept{row})
		}
		if c.row(row.publicID) != row {
			t.Fatalf("row %d is not there", i)
		}
		sum := 0
		for _, row := range c.rows {
			sum += row.size()
		}
		if sum != c.bytes || sum > cacheBytes {
			t.Fatalf("%d bytes, counted as %d", sum, c.bytes)
		}
		if list, found := c.list(1); found && (len(list) != min(i+1, 100) || list[0] != row) {
			t.Fatalf("after row %d the list has %d rows and begins with %s", i, len(list), list[0].publicID)
		}
		fullest = max(fullest, len(c.rows))
	}
	if len(c.rows) == 5000 || fullest < 1000 {
		t.Errorf("%d rows at the end, %d at most", len(c.rows), fullest)
	}
}
