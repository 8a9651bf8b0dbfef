package ledger

import (
	"fmt"
	"time"
)

// ClaimTime is the length of a lease that is not renewed, by the database's clock.
const ClaimTime = 20 * time.Second

// maxPause is longer than any pause between two attempts of background work.
const maxPause = time.Hour

// isPast returns the condition that a time is past. A time further ahead than furthest, in microseconds, is past too: the
// clock of the database was ahead when the time was set, and has been corrected since. The clock is read for each row,
// after its lock is acquired. Otherwise a lease that another transaction has just taken could seem too far ahead.
func isPast(column, furthest string) string {
	return fmt.Sprintf("(%[1]s <= {now} OR %[1]s > {now} + %[2]s)", column, furthest)
}

var (
	lapsed  = isPast("claimed_until", micro(ClaimTime))
	retries = isPast("retry_time", micro(maxPause))
)

// micro returns a duration in microseconds, as a constant of a statement.
func micro(d time.Duration) string { return fmt.Sprint(d.Microseconds()) }
