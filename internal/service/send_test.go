package service

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// slowReader is a caller that takes the time takes(n) to read the n-th message. It stops reading when the call has
// ended.
type slowReader struct {
	grpc.ServerStream
	takes func(n int) time.Duration
	ended chan struct{}
	got   int
}

func (r *slowReader) SendMsg(any) error {
	select {
	case <-time.After(r.takes(r.got)):
		r.got++
		return nil
	case <-r.ended:
		return errors.New("the call has ended")
	}
}

// body is the body of a result. It pauses before each read and closes a channel when it is closed.
type body struct {
	io.Reader
	pause  time.Duration
	closed chan struct{}
}

func (b *body) Read(p []byte) (int, error) {
	time.Sleep(b.pause)
	return b.Reader.Read(p)
}

func (b *body) Close() error {
	close(b.closed)
	return nil
}

// flowTo sends n chunks to a reader. It returns the duration and the error.
func flowTo(r *slowReader, n int, pause time.Duration) (took time.Duration, err error) {
	r.ended = make(chan struct{})
	began, result := time.Now(), &body{bytes.NewReader(make([]byte, n*chunkSize-1)), pause, make(chan struct{})}
	err = (&deadlineSender{stream: r, timeout: time.Minute}).content(&Content{Body: result}, func(chunk *easelv1.ContentChunk) proto.Message {
		return &easelv1.DownloadGenerationResponse{Chunk: chunk}
	})
	took = time.Since(began)
	close(r.ended)
	<-result.closed
	return took, err
}

func TestADownloadIsGivenUpAMinuteAfterAMessageThatIsNotTaken(t *testing.T) { // fault L1
	const never = -1
	for name, row := range map[string]struct {
		takes time.Duration // time that the caller needs to read a message
		pause time.Duration // time that the catalog needs to send a part of the body
		stuck int           // number of the message that the caller never reads
		took  time.Duration
	}{
		"a caller that is almost too slow": {time.Minute - 1, 0, never, 5 * (time.Minute - 1)},
		"a slow catalog":                   {time.Second, time.Hour, never, 0},
		"the first message":                {25 * time.Second, 0, 0, time.Minute},
		"a later message":                  {25 * time.Second, 0, 2, 2*25*time.Second + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &slowReader{takes: func(n int) time.Duration {
					if n == row.stuck {
						return time.Hour
					}
					return row.takes
				}}
				took, err := flowTo(r, 5, row.pause)
				want, got := codes.OK, 5
				if row.stuck != never {
					want, got = codes.ResourceExhausted, row.stuck
				}
				if status.Code(err) != want || r.got != got || row.took > 0 && took != row.took {
					t.Errorf("%d messages in %v, %v", r.got, took, err)
				}
			})
		})
	}
}

func TestAPanicInADownloadIsAnErrorOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{takes: func(int) time.Duration { panic("no such bytes") }}
		_, err := flowTo(r, 1, 0)
		if err == nil || !strings.Contains(err.Error(), "no such bytes") || !strings.Contains(err.Error(), "send_test.go") {
			t.Errorf("it ended with %v", err)
		}
		if st := Status(err); st.Code() != codes.Internal || strings.Contains(st.Message(), "bytes") {
			t.Errorf("the caller receives %v", st)
		}
	})
}
