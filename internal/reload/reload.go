// Package reload keeps a value that was read from files, and reads it again when their contents change.
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

// Interval is the least time between two reads of the files.
const Interval = time.Second

// Value is a value made of the contents of files. While they can't be read, the old value stays.
type Value[T any] struct {
	what   string
	files  []string
	parse  func(contents ...[]byte) (T, error)
	logger *slog.Logger

	// Describe returns attributes for the log line of a change. Nil means none. Set it before the first reload.
	Describe func(before, after T) []any

	mu      sync.Mutex
	value   T
	sums    string    // digests of the contents
	checked time.Time // when the last read began
	reading bool      // somebody does
	problem error     // why the last read failed, which was logged
}

// Open reads the files for the first time. parse makes the value of their contents. Each change and
// each failure is logged once, under the name what. Neither the log nor an error repeats the contents,
// as long as the errors of parse do not.
func Open[T any](what string, logger *slog.Logger, parse func(contents ...[]byte) (T, error), files ...string) (*Value[T], error) {
	v := &Value[T]{what: what, files: files, parse: parse, logger: logger, checked: time.Now()}
	var err error
	v.value, v.sums, err = v.read("")
	return v, err
}

// Get gives the value. It reads the files again when Interval has passed since the last read. One
// caller reads, and the others get the old value meanwhile.
func (v *Value[T]) Get() T {
	v.readAfter(Interval)
	return v.Known()
}

// Known is the value without reading any file.
func (v *Value[T]) Known() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value
}

// Reload reads the files now, whenever the last read was, unless another reads them.
func (v *Value[T]) Reload() { v.readAfter(0) }

// Problem is why the files could not be read, or their value not be taken over, the last time; nil where they could.
func (v *Value[T]) Problem() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.problem
}

// readAfter reads the files, unless the last read began less than an interval ago. One caller reads.
func (v *Value[T]) readAfter(interval time.Duration) {
	inForce, mine := v.begin(interval)
	if !mine {
		return
	}
	value, sums, err := v.read(inForce)
	if note := v.end(value, sums, err); note != nil {
		note()
	}
}

// begin reports whether the caller must read, and gives the digests of what is in force.
func (v *Value[T]) begin(interval time.Duration) (inForce string, mine bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.reading && time.Since(v.checked) >= interval {
		mine, v.reading, v.checked = true, true, time.Now()
	}
	return v.sums, mine
}

// read reads the files. It does not parse again what is in force.
func (v *Value[T]) read(inForce string) (value T, sums string, err error) {
	contents := make([][]byte, len(v.files))
	for i, file := range v.files {
		if contents[i], err = os.ReadFile(file); err != nil { //nolint:gosec // the operator names the files
			return value, "", err
		}
		sum := sha256.Sum256(contents[i])
		sums += string(sum[:])
	}
	if sums == inForce {
		return value, sums, nil
	}
	if value, err = v.parse(contents...); err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(v.files, ", "), err)
	}
	return value, sums, err
}

// end stores the result of a read, and gives what logs it.
func (v *Value[T]) end(value T, sums string, err error) (note func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil && (v.problem == nil || v.problem.Error() != err.Error()):
		note = func() { v.logger.Error(v.what+" can't be read; the old one stays", "error", err) }
	case err == nil && sums != v.sums:
		before := v.value
		v.value, v.sums = value, sums
		note = func() { v.logger.Info(v.what+" has changed", v.described(before, value)...) }
	case err == nil && v.problem != nil:
		note = func() { v.logger.Info(v.what + " is in order again") }
	}
	v.reading, v.problem = false, err
	return note
}

// described returns the attributes of a change.
func (v *Value[T]) described(before, after T) []any {
	if v.Describe == nil {
		return nil
	}
	return v.Describe(before, after)
}
