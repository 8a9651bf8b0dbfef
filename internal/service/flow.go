package service

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// flow sends the many messages of a download, and knows since when one is on its way.
//
// It does what patient.send does for each, with one goroutine and one timer for all of them:
// to have those for each message woke a thread each time, which took 0.1 s for each GB.
type flow struct {
	stream grpc.ServerStream
	epoch  time.Time    // before any send
	since  atomic.Int64 // when the send under way began, after epoch; 0: there is none; or givenUp
}

const givenUp = -1

// errGivenUp ends the work of a flow whose call has its status already.
var errGivenUp = errors.New("the caller is not waited for any more")

// all has work send messages, on a goroutine of its own, until it is done or the caller takes
// none for too long. In that case a send that blocks goes on until the call has ended, and no
// other one begins.
func (p *patient) all(work func(send func(any) error) error) error {
	f := &flow{stream: p.stream, epoch: time.Now().Add(-1)}
	done, panicked := make(chan error, 1), make(chan string, 1)
	go func() {
		defer func() {
			if value := recover(); value != nil {
				panicked <- fmt.Sprintf("%v\n%s", value, debug.Stack())
			}
		}()
		done <- work(f.send)
	}()
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	for {
		select {
		case err := <-done:
			return err
		case value := <-panicked:
			panic(value) // where it is dealt with as that of any call
		case <-timer.C:
			rest := f.rest(p.patience)
			if rest <= 0 {
				return tooSlow(p.patience)
			}
			timer.Reset(rest)
		}
	}
}

// send sends m. m is not touched again.
func (f *flow) send(m any) error {
	began := int64(time.Since(f.epoch))
	if !f.since.CompareAndSwap(0, began) {
		return errGivenUp
	}
	err := f.stream.SendMsg(m)
	if !f.since.CompareAndSwap(began, 0) {
		return errGivenUp
	}
	return err
}

// rest is how long the caller has still to take the message that is on its way. Where that is
// over, none is sent any more.
func (f *flow) rest(patience time.Duration) time.Duration {
	since := f.since.Load()
	if since == 0 {
		return patience
	}
	rest := patience - (time.Since(f.epoch) - time.Duration(since))
	if rest <= 0 && !f.since.CompareAndSwap(since, givenUp) {
		return patience // it was taken at the last moment
	}
	return rest
}
