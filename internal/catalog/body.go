package catalog

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// The most that is read of a body, in bytes.
const (
	maxList    = 8 << 20
	maxRecord  = 4 << 20
	maxFailure = 64 << 10
)

var errTooLarge = errors.New("the body is too large")

// readAll reads a body of at most limit bytes.
func readAll(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	return body, err
}
