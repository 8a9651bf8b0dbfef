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

// slowReader takes message n when it is let, or never once its call has ended.
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

// body is one whose reads take their time, and which tells when it is closed.
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

// flowTo sends n chunks to a reader, and gives how it ended and after how long.
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

func TestACallerHasTheWholeTimeoutForEachMessageOfADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{takes: func(int) time.Duration { return time.Minute - 1 }}
		if took, err := flowTo(r, 5, 0); err != nil || took != 5*(time.Minute-1) || r.got != 5 {
			t.Errorf("%d messages in %v, %v", r.got, took, err)
		}
	})
}

func TestACatalogThatIsSlowIsNotTheCallersFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{takes: func(int) time.Duration { return time.Second }}
		if _, err := flowTo(r, 5, time.Hour); err != nil || r.got != 5 {
			t.Errorf("%d messages, %v", r.got, err)
		}
	})
}

func TestADownloadIsGivenUpAMinuteAfterTheMessageThatIsNotTaken(t *testing.T) { // L1
	for stuck := range 3 {
		synctest.Test(t, func(t *testing.T) {
			r := &slowReader{takes: func(n int) time.Duration {
				if n == stuck {
					return time.Hour
				}
				return 25 * time.Second
			}}
			took, err := flowTo(r, 5, 0)
			if code := status.Code(err); code != codes.ResourceExhausted || took != time.Duration(stuck)*25*time.Second+time.Minute || r.got != stuck {
				t.Errorf("%d messages in %v, %v", r.got, took, err)
			}
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
			t.Errorf("the caller is told %v", st)
		}
	})
}
