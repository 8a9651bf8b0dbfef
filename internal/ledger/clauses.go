package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// clauses collects parts of a statement, such as conditions, and the arguments of the statement, in order.
type clauses struct {
	all  []string
	args []any
}

// addCondition adds a condition. Each %s in condition is a placeholder for one of args.
func (c *clauses) addCondition(condition string, args ...any) {
	c.all = append(c.all, c.bind(condition, args...))
}

// bind appends args to the arguments of the statement. It returns text with each %s replaced by a placeholder such
// as $1.
func (c *clauses) bind(text string, args ...any) string {
	names := make([]any, len(args))
	for n := range args {
		names[n] = fmt.Sprintf("$%d", len(c.args)+n+1)
	}
	c.args = append(c.args, args...)
	return fmt.Sprintf(text, names...)
}

// String returns the conditions joined by AND.
func (c *clauses) String() string { return strings.Join(c.all, " AND ") }

// takeParts returns the collected parts, joined by commas, and removes them from c. The arguments remain in c.
func (c *clauses) takeParts() string {
	list := strings.Join(c.all, ", ")
	c.all = nil
	return list
}

// asList encodes a list as a JSON array, so that the list can be passed as a single argument of a statement. The placeholders
// {ids} and {in ids} read argument 1 as an array of strings, and {in times} reads argument 2 as an array of numbers.
func asList[T any](all []T) string {
	if all == nil { // JSON would encode nil as null
		return "[]"
	}
	text, _ := json.Marshal(all) // cannot fail, because all callers pass strings or numbers
	return string(text)
}

// boolNumber converts a bool to 0 or 1, as both databases store it.
func boolNumber(truth bool) int {
	if truth {
		return 1
	}
	return 0
}

// fromMicros converts a Unix time in microseconds to a [time.Time]. Zero becomes the zero time.
func fromMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// scanner is a row of a query result, such as the current row of [sql.Rows].
type scanner interface{ Scan(into ...any) error }

// moment is a [sql.Scanner] that stores a column with a Unix time in microseconds as a [time.Time].
type moment struct{ into *time.Time }

// Scan implements [sql.Scanner].
func (m moment) Scan(value any) error {
	micros, ok := value.(int64)
	if !ok {
		return fmt.Errorf("invalid ledger time %v", value)
	}
	*m.into = fromMicros(micros)
	return nil
}

// micros converts a time to a Unix time in microseconds. The zero time becomes zero.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
