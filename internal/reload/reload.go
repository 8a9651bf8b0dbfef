// Package reload keeps a value that is parsed from files, and parses it again when the contents of the files change.
package reload

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// Interval is the minimum time between two reads of the files.
const Interval = time.Second

// Value is a value that is parsed from files. If a reload can't read or parse the files, the Value keeps its previous
// value.
type Value[T any] struct {
	what   string // name of the value in log messages
	files  []string
	parse  func(contents ...[]byte) (T, error)
	logger *slog.Logger

	// Describe returns the attributes of the log line about a change from before to after. If it is nil, the line has
	// no such attributes. Set it before the first reload.
	Describe func(before, after T) []any

	mu      sync.Mutex
	value   T
	sums    string    // digests of the file contents from which value was parsed
	checked time.Time // time when the last read of the files started
	reading bool      // whether a read is running
	problem error     // error from the last read, already logged; nil if the last read succeeded
}

// Open reads the files and parses their contents. Later reads log each change of the value, and each new error once.
// The parameter what is the name of the value in log lines. Log lines and errors quote the files only if the function
// Describe or an error from the function parse does.
func Open[T any](what string, logger *slog.Logger, parse func(contents ...[]byte) (T, error), files ...string) (*Value[T], error) {
	v := &Value[T]{what: what, files: files, parse: parse, logger: logger, checked: time.Now()}
	var err error
	v.value, v.sums, err = v.read("")
	return v, err
}

// Get returns the value. It reloads the files if Interval has passed since the last read. Only one of several
// concurrent callers reads them. The others receive the previous value.
func (v *Value[T]) Get() T {
	v.readAfter(Interval)
	return v.Known()
}

// Known returns the value without reading any file.
func (v *Value[T]) Known() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value
}

// Reload reads the files immediately, even if Interval has not passed since the last read. It does nothing if another
// read is running.
func (v *Value[T]) Reload() { v.readAfter(0) }

// Problem returns the error from the last reload, or nil if it succeeded.
func (v *Value[T]) Problem() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.problem
}

// readAfter reads the files. It does nothing if the last read started less than interval ago or is still running.
func (v *Value[T]) readAfter(interval time.Duration) {
	current, mine := v.begin(interval)
	if !mine {
		return
	}
	value, sums, err := v.read(current)
	if note := v.end(value, sums, err); note != nil {
		note()
	}
}

// The method begin returns true if the caller must read the files and then call the method end. This is the case if
// no read is running and the last read started at least interval ago. The result current contains the digests of the
// contents from which the current value was parsed.
func (v *Value[T]) begin(interval time.Duration) (current string, mine bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.reading && time.Since(v.checked) >= interval {
		mine, v.reading, v.checked = true, true, time.Now()
	}
	return v.sums, mine
}

// read reads the files, and returns the digests of their contents. It parses the contents only if the digests differ
// from current.
func (v *Value[T]) read(current string) (value T, sums string, err error) {
	contents := make([][]byte, len(v.files))
	for i, file := range v.files {
		if contents[i], err = os.ReadFile(file); err != nil { //nolint:gosec // the paths come from the operator
			return value, "", err
		}
		sum := sha256.Sum256(contents[i])
		sums += string(sum[:])
	}
	if sums == current {
		return value, sums, nil
	}
	if value, err = v.parse(contents...); err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(v.files, ", "), err)
	}
	return value, sums, err
}

// The method end stores the result of a read. It returns a function that logs the result, or nil if there is nothing
// to log.
func (v *Value[T]) end(value T, sums string, err error) (note func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil && (v.problem == nil || v.problem.Error() != err.Error()):
		note = func() { v.logger.Error(v.what+" unreadable", "error", err, "effect", "previous contents stay in use") }
	case err == nil && sums != v.sums:
		before := v.value
		v.value, v.sums = value, sums
		note = func() { v.logger.Info(v.what+" has changed", v.described(before, value)...) }
	case err == nil && v.problem != nil:
		note = func() { v.logger.Info(v.what + " readable again") }
	}
	v.reading, v.problem = false, err
	return note
}

// described returns the log attributes for a change.
func (v *Value[T]) described(before, after T) []any {
	if v.Describe == nil {
		return nil
	}
	return v.Describe(before, after)
}
