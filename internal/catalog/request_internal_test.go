package catalog

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// After the time limit, a read from a request body fails with errLate if bytes are left. After the last byte, a
// transport reads once more to receive EOF. That read must not fail with errLate.
func TestIncompleteRequestBodyFailsAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := func(n int) (left int, err error) {
			b := timelyBody{bytes.NewReader(make([]byte, 8)), time.Now().Add(time.Second)}
			if _, err := io.ReadFull(b, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			return b.Read(make([]byte, 8))
		}
		if n, err := read(7); n != 0 || !errors.Is(err, errLate) {
			t.Errorf("after the deadline, a read before the last byte returns %d bytes, %v", n, err)
		}
		if n, err := read(8); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("after the deadline, a read at the end returns %d bytes, %v", n, err)
		}
	})
}
