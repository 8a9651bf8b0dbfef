package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// list holds the experience with the catalog's list, and the sweep in flight.
type list struct {
	unusableUntil time.Time       // no sweep replaces reads before
	retryAt       time.Time       // no sweep before, after one failed
	failing       bool            // a sweep failed, and no read has shown yet whether reads fail too
	failures      int             // sweeps in a row that failed
	poorSweeps    int             // sweeps in a row that carried too little, or failed while reads did not
	carried       map[string]bool // what the last one carried, while somebody watches everything
	answeredAt    time.Time       // when the last one came
	cut           bool            // the last one was too long, as was logged
	fullRecords   bool            // its records are as full as a read's, as far as compared

	sweep   *job      // that is under way; nil: none is
	sweptAt time.Time // when the last sweep began
	sweepAt time.Time // when the next one is due; zero: it is not known
	jitter  float64   // of the next one: a random number in [0, 1)
}

// carry notes what a list has carried.
func (l *list) carry(records []catalog.Version) {
	l.carried = make(map[string]bool, len(records))
	for i := range records {
		l.carried[records[i].ID] = true
	}
}

// serves reports whether a sweep polls an entry that somebody waits for.
func (l *list) serves(e *entry, now time.Time) bool {
	return l.usable(now) && e.listing.hint == nil && !now.Before(e.listing.readSinglyUntil)
}

// usable reports whether a sweep may replace reads.
func (l *list) usable(now time.Time) bool {
	return !l.failing && !now.Before(l.unusableUntil) && !now.Before(l.retryAt)
}

// begun notes when the last sweep began, here or elsewhere.
func (l *list) begun(at time.Time, jitter float64) {
	l.sweptAt, l.sweepAt, l.jitter = at, time.Time{}, jitter
}

// failed takes in the failure of a sweep of so many entries.
func (l *list) failed(err error, swept int, least time.Duration, jitter float64, now time.Time) {
	if kind := catalog.KindOf(err); kind != catalog.KindRateLimited && kind != catalog.KindCredentialRejected {
		l.failing = swept > 0
	}
	l.failures++
	l.retryAt = now.Add(schedule.Jitter(schedule.Backoff(l.failures, least, listPause), jitter))
}

// readAnswered notes that a read was answered. Where a sweep failed just before, the list alone is broken,
// or the catalog has recovered: the next sweep shows which.
func (l *list) readAnswered(now time.Time) {
	if l.failing {
		l.failing = false
		l.rateSweep(false, now)
	}
}

// rateSweep notes whether a sweep was worth its call. After two poor sweeps in a row the list is not used
// for a while.
func (l *list) rateSweep(good bool, now time.Time) {
	if good {
		l.poorSweeps = 0
		return
	}
	if l.poorSweeps++; l.poorSweeps >= 2 {
		l.poorSweeps, l.unusableUntil = 0, now.Add(listPause)
	}
}

// compareRecord learns whether the list says as much of a generation as a read does. One that it has shortened says
// nothing of the others.
func (l *list) compareRecord(e *entry, etag string) {
	if hint := e.listing.hint; hint != nil && len(hint.Omitted) == 0 {
		l.fullRecords = e.listing.etag == etag
	}
	e.listing.hint = nil
}

// complete reports whether a list's record has all that a read has: the result or the reason of a failure too.
func complete(g catalog.Generation) bool {
	switch g.State {
	case catalog.StateSucceeded:
		return len(g.Omitted) == 0 && (g.File != nil || g.Text != nil)
	case catalog.StateFailed, catalog.StateRefunded:
		return len(g.Omitted) == 0 && g.FailureMessage != ""
	}
	return len(g.Omitted) == 0
}
