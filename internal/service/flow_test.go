package service

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// slowReader takes a message when it is let, or never once its call has ended.
type slowReader struct {
	grpc.ServerStream
	takes func(m any) time.Duration
	ended chan struct{}
	got   []any
}

func (r *slowReader) SendMsg(m any) error {
	select {
	case <-time.After(r.takes(m)):
		r.got = append(r.got, m)
		return nil
	case <-r.ended:
		return errors.New("the call has ended")
	}
}

// flowTo sends n messages to a reader, and gives how it ended and after how long.
func flowTo(r *slowReader, n int) (took time.Duration, err error) {
	r.ended = make(chan struct{})
	began, done := time.Now(), make(chan struct{})
	err = (&patient{stream: r, patience: time.Minute}).all(func(send func(any) error) error {
		defer close(done)
		for i := range n {
			if err := send(i); err != nil {
				return err
			}
		}
		return nil
	})
	took = time.Since(began)
	close(r.ended)
	<-done
	return took, err
}

func TestACallerHasTheWholePatienceForEachMessageOfADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{takes: func(any) time.Duration { return time.Minute - 1 }}
		if took, err := flowTo(r, 5); err != nil || took != 5*(time.Minute-1) || len(r.got) != 5 {
			t.Errorf("%d messages in %v, %v", len(r.got), took, err)
		}
	})
}

func TestADownloadIsGivenUpAMinuteAfterTheMessageThatIsNotTaken(t *testing.T) { // L1
	for stuck := range 3 {
		synctest.Test(t, func(t *testing.T) {
			r := &slowReader{takes: func(m any) time.Duration {
				if m == stuck {
					return time.Hour
				}
				return 25 * time.Second
			}}
			took, err := flowTo(r, 5)
			if code := status.Code(err); code != codes.ResourceExhausted || took != time.Duration(stuck)*25*time.Second+time.Minute || len(r.got) != stuck {
				t.Errorf("%d messages in %v, %v", len(r.got), took, err)
			}
		})
	}
}

func TestNoMessageIsSentAfterADownloadWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flow{stream: &slowReader{takes: func(any) time.Duration { return time.Hour }}, epoch: time.Now().Add(-1)}
		sent := make(chan error)
		go func() { sent <- f.send("late") }()
		time.Sleep(time.Minute)
		if rest := f.rest(time.Minute); rest != 0 {
			t.Fatalf("the caller has still %v", rest)
		}
		if err := <-sent; !errors.Is(err, errGivenUp) {
			t.Errorf("a message that was taken later ended with %v", err)
		}
		if err := f.send("more"); !errors.Is(err, errGivenUp) {
			t.Errorf("another one ended with %v", err)
		}
	})
}

func TestAPanicInADownloadIsOneOfItsCall(t *testing.T) {
	defer func() {
		if value, _ := recover().(string); !strings.Contains(value, "no such bytes") || !strings.Contains(value, "flow_test.go") {
			t.Errorf("recovered %q", value)
		}
	}()
	_ = (&patient{patience: time.Minute}).all(func(func(any) error) error { panic("no such bytes") })
	t.Error("it was swallowed")
}
