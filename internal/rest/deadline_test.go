package rest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// slowClient delays each chunk, and fails at the second chunk.
type slowClient struct {
	http.ResponseWriter
	takes  time.Duration
	chunks int
}

func (c *slowClient) Write(p []byte) (int, error) {
	time.Sleep(c.takes)
	if c.chunks++; c.chunks == 2 {
		return 0, errors.New("the connection is gone")
	}
	return len(p), nil
}

// The time limit applies to a single chunk, not to the complete download. If the client disconnects before the limit,
// the error's reason is not READER_TOO_SLOW.
func TestAClientIsTooSlowForOneChunkAlone(t *testing.T) {
	const most = service.DefaultDownloadTimeout
	for takes, tooSlow := range map[time.Duration]bool{most * 3 / 4: false, most: true} {
		synctest.Test(t, func(t *testing.T) {
			client := &slowClient{ResponseWriter: httptest.NewRecorder(), takes: takes}
			w := &deadlineWriter{ResponseWriter: client, connection: http.NewResponseController(client), timeout: most}
			n, err := w.Write(make([]byte, 64<<10))
			err = failedWrite(err)
			if n != deadlineChunk || errors.Is(err, context.Canceled) == tooSlow || tooSlow && service.Reason(service.Status(err)) != easelv1.ErrorReason_READER_TOO_SLOW {
				t.Errorf("a client that needs %v for a chunk received %d bytes, and the write returned %v", takes, n, err)
			}
		})
	}
}
