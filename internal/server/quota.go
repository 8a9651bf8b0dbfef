package server

import (
	"fmt"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// quota limits what open streams take: those of each caller, so that none takes the memory of others,
// and those of all, as anybody can make up any number of API keys. It refuses at once: the transport
// below would let one stream too many wait in silence.
type quota struct {
	each, all int
	what      string // what is limited
	instead   string // what a caller can do

	mu      sync.Mutex
	open    map[string]int // by caller; none is 0
	total   int
	refused refusals
}

func newStreamQuota(each, all int) *quota {
	return &quota{each: each, all: all, what: "watches, waits and downloads", instead: "end one first, or watch many renders on one stream", open: map[string]int{}}
}

func newGenerationQuota(each, all int) *quota {
	return &quota{each: each, all: all, what: "generation_ids in watches", instead: "end a watch first, or watch everything that the catalog lists", open: map[string]int{}}
}

// acquire counts so many in. release counts them out, and must be called once.
func (q *quota) acquire(caller string, n int) (release func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.open[caller]+n > q.each:
		return nil, q.exceeded()
	case q.total+n > q.all:
		return nil, overload(fmt.Sprintf("%d %s are open, and this server has room for %d", q.total, q.what, q.all), q.refused.delay())
	}
	q.open[caller] += n
	q.total += n
	return func() { q.release(caller, n) }, nil
}

func (q *quota) release(caller string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total -= n
	if q.open[caller] -= n; q.open[caller] == 0 {
		delete(q.open, caller) // or the map would keep every caller that ever called
	}
}

// inUse is how many are counted.
func (q *quota) inUse() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

func (q *quota) exceeded() error {
	text := fmt.Sprintf("one caller may have %d %s open at once", q.each, q.what)
	failure := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "caller", Description: text}}}
	return service.Fail(easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED, text+": "+q.instead, failure, retryInfo(q.refused.delay()))
}
