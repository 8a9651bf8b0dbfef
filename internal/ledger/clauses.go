package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// clauses collects the conditions of a query, with their arguments in order.
type clauses struct {
	all  []string
	args []any
}

// add adds a condition, in which each %s is an argument.
func (c *clauses) add(condition string, args ...any) {
	c.all = append(c.all, c.with(condition, args...))
}

// with returns a part of the query, in which each %s is an argument, and adds only the arguments.
func (c *clauses) with(text string, args ...any) string {
	names := make([]any, len(args))
	for n := range args {
		names[n] = fmt.Sprintf("$%d", len(c.args)+n+1)
	}
	c.args = append(c.args, args...)
	return fmt.Sprintf(text, names...)
}

// String returns the conditions joined by AND.
func (c *clauses) String() string { return strings.Join(c.all, " AND ") }

// take returns the clauses joined by commas, and removes them. It keeps their arguments.
func (c *clauses) take() string {
	list := strings.Join(c.all, ", ")
	c.all = nil
	return list
}

// asList returns a list as one argument of a statement: of strings for {ids} and {in ids}, of numbers for {in times}.
func asList[T any](all []T) string {
	if all == nil { // otherwise JSON has null instead of a list
		return "[]"
	}
	text, _ := json.Marshal(all) // cannot fail for strings and numbers
	return string(text)
}

// number returns the value of a bool in both databases.
func number(truth bool) int {
	if truth {
		return 1
	}
	return 0
}

// fromMicros returns a time of the ledger. Zero means no time.
func fromMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// scanner scans a row.
type scanner interface{ Scan(into ...any) error }

// moment scans a time of the ledger.
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

// micros returns a time in the format of the ledger.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
