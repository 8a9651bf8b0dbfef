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

// retryInfo asks a rejected caller to wait for a second.
var retryInfo = &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}

// counts has the numbers of open calls of one kind, or of the renders that they watch, by caller and in total.
type counts struct {
	kind      string // for display, such as "calls"
	each, all int
	reason    easelv1.ErrorReason // the reason if the caller itself has too many
	remedy    string

	mu    sync.Mutex
	used  map[string]int // numbers by caller, without zeros
	total int
}

func newCounts(kind string, each, all int, reason easelv1.ErrorReason, remedy string) *counts {
	return &counts{kind: kind, each: each, all: all, reason: reason, remedy: remedy, used: map[string]int{}}
}

// acquire counts n more until release, or returns an error if the caller or the server has too many. It never waits.
func (c *counts) acquire(caller string, n int) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.used[caller]+n > c.each:
		text := fmt.Sprintf("one caller may have %d %s at once", c.each, c.kind)
		quota := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "caller", Description: text}}}
		return nil, service.Fail(c.reason, text+"; "+c.remedy, quota, retryInfo)
	case c.total+n > c.all:
		return nil, service.Fail(easelv1.ErrorReason_OVERLOADED, fmt.Sprintf("this server serves at most %d %s concurrently; retry later", c.all, c.kind), retryInfo)
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

// inUse returns the number of open calls.
func (c *counts) inUse() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
