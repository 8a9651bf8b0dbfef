package ledger

import (
	"fmt"
	"time"
)

const (
	// OrderLease is the duration of an order's lease, measured by the database's clock. It is longer than the sum of RenewAfter
	// and the timeout of an attempt (15 s), so that a lease does not expire during an attempt.
	OrderLease = 30 * time.Second
	// RenewAfter is the interval at which a process renews the lease of an order that waits for an attempt.
	RenewAfter = 10 * time.Second
)

// maxOrderLease is an upper bound for the length of an order's lease in every version of Easel.
const maxOrderLease = 2 * time.Minute

// maxPause is an upper bound for the delay between two background attempts to resend an order.
const maxPause = time.Hour

// pastCondition returns an SQL condition that is true if the time in column has passed. The condition is also true if the time
// is more than furthest (in microseconds) in the future, because only a wrong clock can have written such a time. The clock is
// read for each row, after the row is locked. If it were read earlier, a lease that another transaction has just written could
// seem too far in the future.
func pastCondition(column, furthest string) string {
	return fmt.Sprintf("(%[1]s <= {now} OR %[1]s > {now} + %[2]s)", column, furthest)
}

var (
	lapsed  = pastCondition("leased_until", micro(maxOrderLease))
	retries = pastCondition("retry_time", micro(maxPause))
)

// micro returns a duration in microseconds, as a literal for a statement.
func micro(d time.Duration) string { return fmt.Sprint(d.Microseconds()) }
