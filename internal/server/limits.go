package server

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// retryInfo asks a rejected caller to retry after a second.
var retryInfo = &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}

// counts limits the number of concurrent calls, streams or watched renders, for each caller and in total.
type counts struct {
	kind      string              // name in error messages, such as "calls"
	each, all int                 // maximum number of concurrent calls, streams or renders: of each caller, and of all callers together
	reason    easelv1.ErrorReason // error reason for a caller that would exceed its maximum
	remedy    string              // advice for a caller that would exceed its maximum; ends the error message

	mu    sync.Mutex
	used  map[string]int // current number of calls, streams or renders, keyed by caller; a caller without an entry has zero
	total int            // current number of calls, streams or renders of all callers together
}

func newCounts(kind string, each, all int, reason easelv1.ErrorReason, remedy string) *counts {
	return &counts{kind: kind, each: each, all: all, reason: reason, remedy: remedy, used: map[string]int{}}
}

// acquire adds n to the given caller's count, and returns a function that subtracts n again. If the caller or the server would
// exceed its maximum, acquire returns an error instead. It does not wait.
func (c *counts) acquire(caller string, n int) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.used[caller]+n > c.each:
		text := fmt.Sprintf("a caller may have at most %d concurrent %s", c.each, c.kind)
		quota := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "caller", Description: text}}}
		return nil, service.Fail(c.reason, text+"; "+c.remedy, quota, retryInfo)
	case c.total+n > c.all:
		return nil, service.Fail(easelv1.ErrorReason_OVERLOADED, fmt.Sprintf("this server allows at most %d concurrent %s; retry later", c.all, c.kind), retryInfo)
	}
	c.used[caller] += n
	c.total += n
	return func() { c.release(caller, n) }, nil
}

func (c *counts) release(caller string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total -= n
	if c.used[caller] -= n; c.used[caller] == 0 {
		delete(c.used, caller)
	}
}

// inUse returns the current number of calls, streams or renders of all callers together.
func (c *counts) inUse() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
