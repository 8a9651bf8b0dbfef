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

	mu      sync.Mutex
	value   T
	sums    string        // digests of the contents
	checked time.Time     // when the last read began
	reading chan struct{} // closed at the end of the read in progress; nil where there is none
	broken  bool          // the last read failed, and the failure was logged
}

// Open reads the files for the first time. parse makes the value of their contents. Each change and
// each failure is logged once, under the name what. Neither the log nor an error repeats the contents,
// as long as the errors of parse do not.
func Open[T any](what string, logger *slog.Logger, parse func(contents ...[]byte) (T, error), files ...string) (*Value[T], error) {
	v := &Value[T]{what: what, files: files, parse: parse, logger: logger, checked: time.Now()}
	var err error
	v.value, v.sums, err = v.read()
	return v, err
}

// Get gives the value. It reads the files again when Interval has passed since the last read. One
// caller reads, and the others get the old value meanwhile.
func (v *Value[T]) Get() T { return v.get(false) }

// Newest is Get, but waits for a read in progress.
func (v *Value[T]) Newest() T { return v.get(true) }

func (v *Value[T]) get(wait bool) T {
	mine, reading := v.begin()
	switch {
	case mine:
		v.end(v.read())
	case wait && reading != nil:
		<-reading
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value
}

// begin reports whether the caller must read, and gives the read in progress.
func (v *Value[T]) begin() (mine bool, reading <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reading == nil && time.Since(v.checked) >= Interval {
		mine, v.reading, v.checked = true, make(chan struct{}), time.Now()
	}
	return mine, v.reading
}

func (v *Value[T]) read() (value T, sums string, err error) {
	contents := make([][]byte, len(v.files))
	for i, file := range v.files {
		if contents[i], err = os.ReadFile(file); err != nil { //nolint:gosec // the operator names the files
			return value, "", err
		}
		sum := sha256.Sum256(contents[i])
		sums += string(sum[:])
	}
	if value, err = v.parse(contents...); err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(v.files, ", "), err)
	}
	return value, sums, err
}

// end stores the result of a read.
func (v *Value[T]) end(value T, sums string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.reading)
	v.reading = nil
	switch {
	case err != nil && !v.broken:
		v.logger.Error(v.what+" can't be read; the old one stays", "error", err)
	case err == nil && sums != v.sums:
		v.value, v.sums = value, sums
		v.logger.Info(v.what + " has changed")
	}
	v.broken = err != nil
}
