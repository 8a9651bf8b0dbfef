package telemetry

import (
	"sync/atomic"
	"time"
)

// mostPushSpans is how many pushes a second have a span. The exporter's queue holds 2,048 spans,
// and what comes then is dropped, of whatever kind: a change that is told to ten thousand watches
// would drive out the spans of calls and of the poll that found it. They also cost more than the
// telling: 16 instead of 6 µs of CPU a push (the bench's push-cpu).
const mostPushSpans = 1000

// pace lets so much through in each second, about: at its turn it may be up to twice as much.
type pace struct {
	second atomic.Int64
	count  atomic.Int64
}

// allows reports whether one more may pass at now.
func (p *pace) allows(now time.Time) bool {
	second := now.Unix()
	if p.second.Swap(second) != second {
		p.count.Store(0)
	}
	return p.count.Add(1) <= mostPushSpans
}
