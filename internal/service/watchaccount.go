package service

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	balanceLeast = 10 * time.Second // between two reads of the balance where it may have changed
	balanceMost  = 59 * time.Second // the same at any time: with the read itself not above a minute
	budgetsEvery = 5 * time.Second

	// balanceWait is how long the first update waits for a balance: longer than a catalog takes that is well, and shorter
	// than somebody looks at an empty page.
	balanceWait = 2 * time.Second

	defaultHeartbeat = 15 * time.Second
)

// watchOfAccount sends updates and heartbeats of the account. Nothing is queued: it sends the newest balance and budgets
// where they differ from those that it has sent.
type watchOfAccount struct {
	out        deadlineSender
	call       *call
	known      func() error // the caller may still call
	attendance *watch.Attendance
	balance    watching[catalog.Account]
	budgets    watching[[]ledger.Budget] // empty: the owner has none
	waited     bool                      // the first update waits for the balance no more
	sent       *money                    // nil: none yet
}

func (w *watchOfAccount) leave() {
	w.attendance.Leave()
	w.balance.leave()
	if w.budgets.leave != nil {
		w.budgets.leave()
	}
}

// run sends until the stream has to end. What has changed before is sent first.
func (w *watchOfAccount) run(ctx context.Context, heartbeat time.Duration, until time.Time) error {
	if heartbeat == 0 {
		heartbeat = defaultHeartbeat
	}
	beat := time.NewTicker(heartbeat)
	soon, aged := time.After(balanceWait), agedAt(until)
	for end := error(nil); ; {
		if update := w.update(); update != nil {
			if err := w.send(ctx, &easelv1.WatchAccountResponse{Event: update}, watch.Event{}); err != nil {
				return err
			}
			beat.Reset(heartbeat)
		}
		if end != nil {
			return end
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case end = <-w.attendance.Ended():
		case <-aged:
			end = watch.ErrExpired
		case <-w.balance.changed:
		case <-w.budgets.changed:
		case <-soon:
			w.waited = true
		case <-beat.C:
			beat := w.heartbeat()
			if err := w.send(ctx, &easelv1.WatchAccountResponse{Event: &easelv1.WatchAccountResponse_Heartbeat{Heartbeat: heartbeatMessage(w.call, *beat)}}, watch.Event{Heartbeat: beat}); err != nil {
				return err
			}
		}
	}
}

// agedAt tells when a stream reaches its age; zero: never.
func agedAt(until time.Time) <-chan time.Time {
	if until.IsZero() {
		return nil
	}
	return time.After(time.Until(until))
}

// send sends a message to a caller that may still call. event is what it tells.
func (w *watchOfAccount) send(ctx context.Context, message *easelv1.WatchAccountResponse, event watch.Event) error {
	if err := w.known(); err != nil {
		return err
	}
	message.EmitTime = timestamppb.Now()
	return w.attendance.Deliver(ctx, event, func() error { return w.out.send(message) })
}

// update gives the account where it is new to the caller, and notes that it is sent.
func (w *watchOfAccount) update() *easelv1.WatchAccountResponse_Update {
	now, ok := w.now()
	initial := w.sent == nil
	if !ok || !initial && now.equal(*w.sent) {
		return nil
	}
	w.sent = &now
	return &easelv1.WatchAccountResponse_Update{Update: &easelv1.AccountUpdate{Account: now.message(), Initial: initial}}
}

// now is the account as the caller may see it; not ok: it is not known yet.
func (w *watchOfAccount) now() (now money, ok bool) {
	if w.budgets.newest != nil {
		budgets := w.budgets.newest()
		if !budgets.known {
			return now, false
		}
		now.budgets, now.observed = budgets.value, budgets.at
	}
	if !w.call.seesAccount() {
		return now, true
	}
	balance := w.balance.newest()
	now.account, now.observed = balance.value, balance.value.ObserveTime
	return now, balance.known || w.waited
}

// errBudgets is what a heartbeat says of budgets that can't be read.
const errBudgets = "the ledger does not answer: the budgets are not read"

// heartbeat says why the watch is quiet.
func (w *watchOfAccount) heartbeat() *watch.Heartbeat {
	beat, balance := w.attendance.Standing(), w.balance.newest()
	beat.ObserveTime, beat.Failures = balance.value.ObserveTime, balance.failures
	if balance.next.After(beat.NextPoll) {
		beat.NextPoll = balance.next
	}
	if balance.err != nil {
		beat.LastError = balance.err.Error()
	}
	if beat.LastError == "" && w.budgets.newest != nil && w.budgets.newest().failures > 0 {
		beat.LastError, beat.Own = errBudgets, true
	}
	return beat
}
