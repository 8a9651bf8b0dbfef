// Package reload keeps what was read from files, and reads it again when their contents change.
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

// Value is what some files hold. While they can't be read, the old value stays.
type Value[T any] struct {
	what   string
	files  []string
	parse  func(contents ...[]byte) (T, error)
	logger *slog.Logger

	mu      sync.Mutex
	value   T
	sums    string        // of the contents that the value was made of
	checked time.Time     // when the last read began
	reading chan struct{} // closed at the end of the read that is under way; nil where none is
	broken  bool          // the last read failed, and that has been logged
}

// Open reads the files for the first time, and parse makes a value of what they hold. logger is
// told of each change and once of each failure, under the name what. Neither the log nor an error
// repeats the contents, as long as the errors of parse do not.
func Open[T any](what string, logger *slog.Logger, parse func(contents ...[]byte) (T, error), files ...string) (*Value[T], error) {
	v := &Value[T]{what: what, files: files, parse: parse, logger: logger, checked: time.Now()}
	var err error
	v.value, v.sums, err = v.read()
	return v, err
}

// Get gives the value, read again where a second has gone by since the last read. One caller
// reads, and the others get the old value meanwhile.
func (v *Value[T]) Get() T { return v.get(false) }

// Newest gives the same, but waits for a read that is under way.
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

// begin reports whether the caller is to read, and which read is under way.
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

// end takes in what was read.
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
