package admin

import (
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

const uncopiedLong = 15 * time.Minute // a result that waits for its copy, before somebody should know

// copies are those of results, in the report.
type copies struct {
	Waiting       int64      `json:"waiting"`
	OldestWaiting *time.Time `json:"oldestWaiting"`
	Failed        int64      `json:"failed"` // results that are not tried again
}

func copiesOf(known ledger.ContentSummary, now time.Time) *copies {
	return &copies{Waiting: known.Waiting, OldestWaiting: oldest(now, known.Waiting, known.Oldest), Failed: known.Failed}
}

// concerns are the sentences about copies.
func (c *copies) concerns(now time.Time, all *concerns) {
	if c.OldestWaiting != nil && now.Sub(*c.OldestWaiting) >= uncopiedLong {
		all.add(false, "Results that wait to be copied: %d, the oldest for %s. The log says why; readers go to the catalog.", c.Waiting, now.Sub(*c.OldestWaiting).Round(time.Minute))
	}
	if c.Failed > 0 {
		all.add(false, "Results that can't be copied, and are not tried again: %d. The log has named each.", c.Failed)
	}
}
