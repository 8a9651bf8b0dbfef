package admin

import (
	"context"
	"time"
)

// ContentFetch is the body of a request to copy a result again.
type ContentFetch struct {
	Generation string `json:"generation"`
}

// FetchedContent is the response to a [ContentFetch]: the state of the result's copy.
type FetchedContent struct {
	State       string `json:"state"`
	SizeBytes   int64  `json:"size_bytes"`
	ContentType string `json:"content_type"`
	Problem     string `json:"problem,omitempty"` // error of the last attempt
}

// fetchTime is the maximum time that an operator's request waits for a result to be copied.
const fetchTime = 10 * time.Second

// fetchContent serves POST /contents:fetch, which copies a result again.
func (o Orders) fetchContent(ctx context.Context, asked ContentFetch) (FetchedContent, error) {
	if asked.Generation == "" {
		return FetchedContent{}, newInvalidMember(`send {"generation": GENERATION}`)
	}
	if o.Contents == nil || !o.Contents.Keeps() {
		return FetchedContent{}, newConflict("this server keeps no copies of results: EASEL_CONTENT_URL is not set")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	row, has, err := o.Contents.Fetch(ctx, byOf(ctx), asked.Generation)
	if err == nil && !has {
		err = newConflict("the ledger has no render %s that has succeeded and is not erased", asked.Generation)
	}
	return FetchedContent{row.State.String(), row.Size, row.ContentType, row.Problem}, err
}

// adoptContents serves POST /contents:adopt. After a ledger was copied or restored, it allows the ledger to delete
// copies of results that were stored before then. For any other ledger, it returns an error.
func (o Orders) adoptContents(ctx context.Context, _ struct{}) (done struct{}, err error) {
	wasCopied, err := o.Ledger.AdoptContents(ctx, byOf(ctx))
	if err == nil && !wasCopied {
		err = newConflict("there is nothing to adopt, because the ledger was not copied or restored")
	}
	return done, err
}
