package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// sweepFrom is the smallest number of generations for which one list request is cheaper than individual reads.
const sweepFrom = 3

// listPause is the time for which generations are read individually after sweeps failed or the list did not contain them. It is
// also the maximum back-off of failed sweeps.
const listPause = time.Minute

// list tracks the sweeps of the catalog's list, and whether they can replace individual reads.
type list struct {
	unusableUntil time.Time       // sweeps do not replace reads before this time
	retryAt       time.Time       // no sweep before this time, because the last one failed
	failing       bool            // the last sweep failed, and no individual read has been answered since
	failures      int             // number of consecutive failed sweeps
	poorSweeps    int             // number of consecutive sweeps that returned too few generations or that failed while reads succeeded
	carried       map[string]bool // IDs in the last list; nil if no watch of everything is open
	answeredAt    time.Time       // time of the last response with a list
	cut           bool            // the last list was too long to be read completely; this is logged once
	fullRecords   bool            // the last comparison showed that a record in the list is as complete as the response to a read

	sweep   *job      // sweep in flight, or nil
	sweptAt time.Time // time when the last sweep started
	sweepAt time.Time // time when the next sweep is due; zero if unknown
	jitter  float64   // jitter of the next sweep: a random number in [0, 1)
}

// carry stores the IDs of the generations in a list.
func (l *list) carry(records []catalog.Version) {
	l.carried = make(map[string]bool, len(records))
	for i := range records {
		l.carried[records[i].ID] = true
	}
}

// serves reports whether a sweep can replace a read of a generation.
func (l *list) serves(e *generation, now time.Time) bool {
	return l.usable(now) && e.listing.hint == nil && !now.Before(e.listing.readSinglyUntil)
}

// usable reports whether a sweep may replace reads.
func (l *list) usable(now time.Time) bool {
	return !l.failing && !now.Before(l.unusableUntil) && !now.Before(l.retryAt)
}

// begun records the start of a sweep, and the jitter for the time of the following sweep.
func (l *list) begun(at time.Time, jitter float64) {
	l.sweptAt, l.sweepAt, l.jitter = at, time.Time{}, jitter
}

// failed records a failed sweep. swept is the number of generations that the sweep should have polled.
func (l *list) failed(err error, swept int, least time.Duration, jitter float64, now time.Time) {
	if kind := catalog.KindOf(err); kind != catalog.KindRateLimited && kind != catalog.KindCredentialRejected {
		l.failing = swept > 0
	}
	l.failures++
	l.retryAt = now.Add(schedule.Jitter(schedule.Backoff(l.failures, least, listPause), jitter))
}

// readAnswered records a response to a read. If the last sweep failed, this response means either that only list requests fail,
// or that the catalog has recovered. The next sweep distinguishes the two cases.
func (l *list) readAnswered(now time.Time) {
	if l.failing {
		l.failing = false
		l.rateSweep(false, now)
	}
}

// rateSweep records whether a sweep was useful. After two consecutive sweeps that were not useful, sweeps do not replace reads
// for listPause.
func (l *list) rateSweep(good bool, now time.Time) {
	if good {
		l.poorSweeps = 0
		return
	}
	if l.poorSweeps++; l.poorSweeps >= 2 {
		l.poorSweeps, l.unusableUntil = 0, now.Add(listPause)
	}
}

// compareRecord compares the list's record of a generation with the response to a read, and records whether the list has
// complete records. It ignores a shortened record, which shows nothing about other records.
func (l *list) compareRecord(e *generation, etag string) {
	if hint := e.listing.hint; hint != nil && len(hint.Omitted) == 0 {
		l.fullRecords = e.listing.etag == etag
	}
	e.listing.hint = nil
}

// complete reports whether a record from a list has every detail that an individual read returns, including the result or the
// failure message.
func complete(g catalog.Generation) bool {
	switch g.State {
	case catalog.StateSucceeded:
		return len(g.Omitted) == 0 && (g.File != nil || g.Text != nil)
	case catalog.StateFailed, catalog.StateRefunded:
		return len(g.Omitted) == 0 && g.FailureMessage != ""
	}
	return len(g.Omitted) == 0
}
