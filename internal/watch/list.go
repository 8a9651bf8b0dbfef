package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// sweepFrom is the smallest number of generations for which one list request costs less than individual reads.
const sweepFrom = 3

// listPause has three uses:
//
//   - If list requests were not useful, all generations are read individually for this time.
//   - If a list did not contain a generation, the generation is read individually for this time.
//   - A failed list request delays the next one by at most this time, plus up to 10 % jitter.
const listPause = time.Minute

// list is the state of the sweeps, which are requests for the catalog's list. It also determines whether sweeps can replace
// individual reads.
type list struct {
	unusableUntil time.Time       // time until which list requests do not replace individual reads
	retryAt       time.Time       // time before which the list is not requested, because the last list request failed
	failing       bool            // whether the last list request failed, and no individual read has received a response since then
	failures      int             // number of consecutive failed list requests
	poorSweeps    int             // number of consecutive list requests that could not replace individual reads; see rateSweep
	carried       map[string]bool // IDs in the last list; nil if no watch of all generations was open when the list arrived
	answeredAt    time.Time       // time of the last successful list request
	cut           bool            // whether the last list was too long to be read to its end
	fullRecords   bool            // whether the list's records are as complete as the responses to reads, according to the last comparison

	sweep   *job      // list request in flight, or nil
	sweptAt time.Time // time when the last list request started
	sweepAt time.Time // time when the next list request is due; zero if unknown
	jitter  float64   // jitter of the next list request: a random number in [0, 1)
}

// storeIDs stores the IDs of the generations that a list contains.
func (l *list) storeIDs(records []catalog.Version) {
	l.carried = make(map[string]bool, len(records))
	for i := range records {
		l.carried[records[i].ID] = true
	}
}

// coversRead reports whether a sweep (a list request) can replace an individual read of the generation.
func (l *list) coversRead(e *generation, now time.Time) bool {
	return l.isUsable(now) && e.listing.hint == nil && !now.Before(e.listing.readSinglyUntil)
}

// isUsable reports whether list requests may currently replace individual reads.
func (l *list) isUsable(now time.Time) bool {
	return !l.failing && !now.Before(l.unusableUntil) && !now.Before(l.retryAt)
}

// recordStart records the start of a list request. jitter changes the time of the next list request.
func (l *list) recordStart(at time.Time, jitter float64) {
	l.sweptAt, l.sweepAt, l.jitter = at, time.Time{}, jitter
}

// recordFailure records a failed list request, and delays the next one. sweptCount is the number of generations that the
// request was meant to poll. leastDelay is the delay after the first failure. Each further consecutive failure increases the
// delay.
func (l *list) recordFailure(err error, sweptCount int, leastDelay time.Duration, jitter float64, now time.Time) {
	if kind := catalog.KindOf(err); kind != catalog.KindRateLimited && kind != catalog.KindCredentialRejected {
		l.failing = sweptCount > 0
	}
	l.failures++
	l.retryAt = now.Add(schedule.Jitter(schedule.Backoff(l.failures, leastDelay, listPause), jitter))
}

// recordReadAnswer records that the catalog has responded to a read of one generation. If the last list request failed,
// recordReadAnswer rates that request as not good, and allows another one.
func (l *list) recordReadAnswer(now time.Time) {
	if l.failing {
		l.failing = false
		l.rateSweep(false, now)
	}
}

// rateSweep records whether a list request was good, which means that it can replace individual reads. After two consecutive
// list requests that were not good, no list request replaces reads until listPause has passed. A list request is not good if it
// fails although reads succeed, or if the list contains too few of the polled generations.
func (l *list) rateSweep(isGood bool, now time.Time) {
	if isGood {
		l.poorSweeps = 0
		return
	}
	if l.poorSweeps++; l.poorSweeps >= 2 {
		l.poorSweeps, l.unusableUntil = 0, now.Add(listPause)
	}
}

// compareRecord compares a read of a generation with the generation's hint, which is its record from the list. etag is the etag
// from the read. If the record has the same etag, the list's records count as complete from now on, and otherwise as
// incomplete. A hint with omitted members is not compared, because it shows nothing about other records. Finally, compareRecord
// discards the hint.
func (l *list) compareRecord(e *generation, etag string) {
	if hint := e.listing.hint; hint != nil && len(hint.Omitted) == 0 {
		l.fullRecords = e.listing.etag == etag
	}
	e.listing.hint = nil
}

// isComplete reports whether a record from a list has every detail that an individual read returns, including the
// result or the failure message.
func isComplete(g catalog.Generation) bool {
	switch g.State {
	case catalog.StateSucceeded:
		return len(g.Omitted) == 0 && (g.File != nil || g.Text != nil)
	case catalog.StateFailed, catalog.StateRefunded:
		return len(g.Omitted) == 0 && g.FailureMessage != ""
	}
	return len(g.Omitted) == 0
}
