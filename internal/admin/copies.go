package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

const uncopiedLong = 15 * time.Minute // wait of a result for its copy from which the page warns

// copies describes the copies of results in the report.
type copies struct {
	Waiting       int64      `json:"waiting"`
	OldestWaiting *time.Time `json:"oldestWaiting"`
	Failed        int64      `json:"failed"` // results that are no longer retried
}

func copiesOf(known ledger.ContentSummary, now time.Time) *copies {
	return &copies{Waiting: known.Waiting, OldestWaiting: oldest(now, known.Waiting, known.Oldest), Failed: known.Failed}
}

// ContentFetch is the result to copy again.
type ContentFetch struct {
	Generation string `json:"generation"`
}

// FetchedContent is the state of a copy.
type FetchedContent struct {
	State       string `json:"state"`
	SizeBytes   int64  `json:"size_bytes"`
	ContentType string `json:"content_type"`
	Problem     string `json:"problem,omitempty"` // reason for the failure of the last attempt
}

// fetchTime is the maximum time that an operator waits for a copy.
const fetchTime = 10 * time.Second

// fetchContent serves POST /contents:fetch.
func (o Orders) fetchContent(w http.ResponseWriter, r *http.Request) {
	var asked ContentFetch
	if err := decode(w, r, &asked); err != nil || asked.Generation == "" {
		http.Error(w, `send {"generation": GENERATION}`, http.StatusBadRequest)
		return
	}
	if o.Contents == nil || !o.Contents.Keeps() {
		http.Error(w, "this server keeps no copies of results: EASEL_CONTENT_URL is not set", http.StatusConflict)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), fetchTime)
	defer cancel()
	row, has, err := o.Contents.Fetch(ctx, byOf(r.Context()), asked.Generation)
	if err == nil && !has {
		http.Error(w, "the ledger has no render "+asked.Generation+" that has succeeded and is not erased", http.StatusConflict)
		return
	}
	answer(w, FetchedContent{row.State.String(), row.Size, row.ContentType, row.Problem}, err)
}

// adoptContents serves POST /contents:adopt.
func (o Orders) adoptContents(w http.ResponseWriter, r *http.Request) {
	wasCopied, err := o.Ledger.AdoptContents(r.Context(), byOf(r.Context()))
	if err == nil && !wasCopied {
		http.Error(w, "the ledger was not copied or restored: it may delete each of its copies", http.StatusConflict)
		return
	}
	answer(w, struct{}{}, err)
}

// concerns adds the warnings about copies.
func (c *copies) concerns(now time.Time, all *concerns) {
	if c.OldestWaiting != nil && now.Sub(*c.OldestWaiting) >= uncopiedLong {
		all.add(false, "Results that wait to be copied: %d, the oldest for %s. The log has the reason. Results are read from the catalog.", c.Waiting, now.Sub(*c.OldestWaiting).Round(time.Minute))
	}
	if c.Failed > 0 {
		all.add(false, "Results whose copy was abandoned: %d. The log has each.", c.Failed)
	}
}
