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
// Log lines refer to the value by valueName. Log lines and errors quote the files only if [Value.Describe] or an
// error from parseFiles does.
func Open[T any](valueName string, logger *slog.Logger, parseFiles func(contents ...[]byte) (T, error), files ...string) (*Value[T], error) {
	v := &Value[T]{what: valueName, files: files, parse: parseFiles, logger: logger, checked: time.Now()}
	var err error
	v.value, v.sums, err = v.readFiles("")
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
	knownSums, mayRead := v.beginRead(interval)
	if !mayRead {
		return
	}
	value, sums, err := v.readFiles(knownSums)
	if logResult := v.endRead(value, sums, err); logResult != nil {
		logResult()
	}
}

// beginRead reports whether the caller must read the files and then call endRead. This is the case if no read is
// running and the last read started at least interval ago. beginRead also returns knownSums, the digests of the
// contents from which the current value was parsed.
func (v *Value[T]) beginRead(interval time.Duration) (knownSums string, mayRead bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.reading && time.Since(v.checked) >= interval {
		mayRead, v.reading, v.checked = true, true, time.Now()
	}
	return v.sums, mayRead
}

// readFiles reads the files, and returns the digests of their contents. It parses the contents only if the digests
// differ from knownSums.
func (v *Value[T]) readFiles(knownSums string) (value T, sums string, err error) {
	contents := make([][]byte, len(v.files))
	for i, file := range v.files {
		if contents[i], err = os.ReadFile(file); err != nil { //nolint:gosec // the paths come from the operator
			return value, "", err
		}
		sum := sha256.Sum256(contents[i])
		sums += string(sum[:])
	}
	if sums == knownSums {
		return value, sums, nil
	}
	if value, err = v.parse(contents...); err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(v.files, ", "), err)
	}
	return value, sums, err
}

// endRead stores the result of a read. It returns a function that logs the result, or nil if there is nothing to log.
func (v *Value[T]) endRead(value T, sums string, err error) (logResult func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil && (v.problem == nil || v.problem.Error() != err.Error()):
		logResult = func() { v.logger.Error(v.what+" unreadable", "error", err, "effect", "previous contents stay in use") }
	case err == nil && sums != v.sums:
		before := v.value
		v.value, v.sums = value, sums
		logResult = func() { v.logger.Info(v.what+" has changed", v.describeChange(before, value)...) }
	case err == nil && v.problem != nil:
		logResult = func() { v.logger.Info(v.what + " readable again") }
	}
	v.reading, v.problem = false, err
	return logResult
}

// describeChange returns the log attributes for a change.
func (v *Value[T]) describeChange(before, after T) []any {
	if v.Describe == nil {
		return nil
	}
	return v.Describe(before, after)
}
