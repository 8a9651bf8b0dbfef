package ledger

import (
	"fmt"
	"time"
)

const (
	// OrderLease is the length of an order's lease, measured by the database's clock. It is longer than RenewAfter and the
	// timeout of an attempt (15 s) together, so that a lease does not expire during an attempt.
	OrderLease = 30 * time.Second
	// RenewAfter is the time after which the holder renews the lease of an order that waits for an attempt.
	RenewAfter = 10 * time.Second
)

// maxPause is longer than any delay between two attempts to resend an order in the background.
const maxPause = time.Hour

// isPast returns a condition that is true if the time in a column has passed. A time more than furthest microseconds ahead also
// counts as past, because the database's clock must have been wrong when the time was written. The clock is read for each row
// after the row is locked. Otherwise a lease that another transaction has just written could seem too far ahead.
func isPast(column, furthest string) string {
	return fmt.Sprintf("(%[1]s <= {now} OR %[1]s > {now} + %[2]s)", column, furthest)
}

var (
	lapsed  = isPast("leased_until", micro(OrderLease))
	retries = isPast("retry_time", micro(maxPause))
)

// micro returns a duration in microseconds, as a literal for a statement.
func micro(d time.Duration) string { return fmt.Sprint(d.Microseconds()) }
