package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is one line of the table. By default, its limit applies to easel's value divided by the peer's value. The fields absolute
// and excess change this.
type row struct {
	name     string // name on the command line and in the table, and key in a figures map
	title    string
	unit     string // unit of easel's value and the peer's value
	from     *measurement
	limit    float64
	atLeast  bool // whether the limit is a minimum instead of a maximum
	absolute bool // whether the limit applies to easel's value itself, instead of its ratio to the peer's value
	excess   bool // whether the limit applies to easel's value minus the peer's value, instead of their ratio
	counted  bool // whether the value is a count or a size instead of a time; the flag -counts selects only rows with such values
}

var rows = []row{
	{name: "call-cpu", from: calls, title: "CPU of the server for a unary call", unit: "µs", limit: 1.1},
	// The limit is above 1, because for each call easel reads the generation's owner from its ledger. The peer, which is the
	// facade that easel is compared with, has no ledger.
	{name: "call-allocs", from: calls, title: "allocations for a unary call", unit: "allocations", limit: 1.42, counted: true},
	{name: "call-rate", from: calls, title: "unary calls of 16 callers", unit: "calls/s", limit: 0.95, atLeast: true},
	{name: "rest-rate", from: restCalls, title: "unary calls of 16 callers by REST", unit: "calls/s", limit: 0.95, atLeast: true},
	{name: "push-delay", from: pushes, title: "push to 10,000 watches, p99", unit: "ms", limit: 0.65},
	{name: "push-cpu", from: pushes, title: "CPU of the server to push to one watch", unit: "µs", limit: 0.65},
	{name: "watch-memory", from: idleWatches, title: "memory of an idle watch: objects and stacks", unit: "kB", limit: 1.15, counted: true},
	{name: "idle-memory", from: idleServer, title: "resident memory of an idle server, with its ledger", unit: "MB", limit: 1.9, counted: true},
	{name: "requests", from: polls, title: "requests for 1,000 active generations", unit: "requests/s", limit: 0.005, counted: true},

	// The peer, the facade that easel is compared with, has no ledger, so ratios would not be meaningful. In the p50
	// rows, the limit is the maximum time by which easel may be slower than the peer. In the other rows, the limit is
	// easel's minimum rate.
	{name: "sqlite-order", from: sqliteOrders, title: "an order through SQLite, p50", unit: "ms", limit: 3, excess: true},
	{name: "sqlite-rate", from: sqliteOrders, title: "orders of 16 callers through SQLite", unit: "orders/s", limit: 300, atLeast: true, absolute: true},
	{name: "postgres-order", from: postgresOrders, title: "an order through PostgreSQL, p50", unit: "ms", limit: 5, excess: true},
	{name: "postgres-rate", from: postgresOrders, title: "orders of 16 callers through PostgreSQL", unit: "orders/s", limit: 300, atLeast: true, absolute: true},
}

func rowNames() []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return names
}

// chooseRows returns the rows with the given names, or all rows if names is empty. A name also selects all rows whose names
// begin with it and a hyphen: "call" selects call-cpu, call-allocs and call-rate. A name that selects no row is an error.
func chooseRows(names []string) (chosen []row, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.isCalled(name) }) {
			return nil, fmt.Errorf("unknown row %q; the rows are %s", name, strings.Join(rowNames(), " "))
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return len(names) > 0 && !slices.ContainsFunc(names, r.isCalled) }), nil
}

func (r row) isCalled(name string) bool {
	return name == r.name || strings.HasPrefix(r.name, name+"-")
}

// result contains a row and its measured values.
type result struct {
	row
	peer, easel []float64 // one value per repetition of the measurement
}

func (r row) result(measured []map[facade]figures) result {
	out := result{row: r}
	for _, m := range measured {
		of := r.from.comparedSides()
		out.peer, out.easel = append(out.peer, m[of.peer][r.name]), append(out.easel, m[of.easel][r.name])
	}
	return out
}

const heading = "row           measure                                                     peer                   easel                  ratio   limit\n"

// String returns the result as a line of the table.
func (r result) String() string {
	sign := "≤"
	if r.atLeast {
		sign = "≥"
	}
	of := " ×"
	switch {
	case r.absolute:
		of = ""
	case r.excess:
		sign, of = sign+"+", ""
	}
	return fmt.Sprintf("%-13s %-59s %-22s %-22s %-7s %-7s %s", r.name, r.title+", "+r.unit, span(r.peer), span(r.easel),
		formatNumber(median(r.easel)/median(r.peer)), sign+formatNumber(r.limit)+of, r.verdict())
}

const missed = "MISSED"

// figure returns the number that is compared with the row's limit.
func (r result) figure() float64 {
	switch {
	case r.absolute:
		return median(r.easel)
	case r.excess:
		return median(r.easel) - median(r.peer)
	}
	return median(r.easel) / median(r.peer)
}

func (r result) verdict() string {
	if figure := r.figure(); r.atLeast && figure >= r.limit || !r.atLeast && figure <= r.limit {
		return "reached"
	}
	return missed
}
