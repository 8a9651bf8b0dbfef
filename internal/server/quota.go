package server

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/easel-grpc/easel/internal/service"
)

// quota bounds the open streams: those of each caller, so that none takes the others'
// memory, and those of all, as anybody can make up any number of keys. It refuses at
// once: the transport below would let a stream too many wait in silence.
type quota struct {
	each, all int

	mu      sync.Mutex
	open    map[string]int // by caller; none is 0
	total   int
	refused refusals
}

func newQuota(each, all int) *quota {
	return &quota{each: each, all: all, open: map[string]int{}}
}

// take counts a stream in, and gives what counts it out. That must be called once.
func (q *quota) take(caller string) (leave func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.open[caller] >= q.each:
		return nil, overQuota(q.each, q.refused.delay())
	case q.total >= q.all:
		return nil, overload(strconv.Itoa(q.all)+" streams are open, which is as many as this server has room for", q.refused.delay())
	}
	q.open[caller]++
	q.total++
	return func() { q.leave(caller) }, nil
}

func (q *quota) leave(caller string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.open[caller]--; q.open[caller] == 0 {
		delete(q.open, caller) // or the map would keep every key that ever called
	}
}

// taken is how many streams are open.
func (q *quota) taken() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

func overQuota(each int, after time.Duration) error {
	text := fmt.Sprintf("one caller may have %d watches, waits and downloads open at once", each)
	failure := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "caller", Description: text}}}
	return service.Fail(codes.ResourceExhausted, reasonStreamQuota,
		text+": end one first, or watch many renders on one stream", failure, retryInfo(after))
}
