package service

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/watch"
)

const (
	askAgainAfter = 2 * time.Second // until the ledger is asked again, and between two such questions
	// unknownFor is after how long the ledger is asked for the last time. A claim of an order lasts for 20 s and
	// recovery looks every 2 s, so nearly every order is named within a minute. One that an outage or an operator keeps
	// for hours is told to the next stream.
	unknownFor = 10 * time.Minute
	maxUnknown = 1000
)

// unknowns are the generations of a watch that the ledger did not call its own, the oldest first: the ledger may
// have yet to learn of the order, whose answer was lost or which another replica has placed. Nearly all are of other
// owners under the same API key. So one query asks about all that are due, and about each less and less often.
type unknowns struct {
	all   []unknown
	askAt time.Time // when some are due; zero: never
}

type unknown struct {
	update *watch.Update // the newest
	since  time.Time
	askAt  time.Time
}

// note keeps what the ledger did not know.
func (u *unknowns) note(update *watch.Update, now time.Time) {
	at := u.find(update.Generation.ID)
	switch {
	case at < 0:
		u.add(unknown{update: update, since: now, askAt: now.Add(askAgainAfter)})
	case now.Sub(u.all[at].since) < unknownFor:
		u.all[at].update = update
	default:
		u.all = slices.Delete(u.all, at, at+1)
	}
}

// add adds one. Where there are too many, the oldest is forgotten.
func (u *unknowns) add(one unknown) {
	if len(u.all) == maxUnknown {
		u.all = slices.Delete(u.all, 0, 1)
	}
	u.all = append(u.all, one)
	if u.askAt.IsZero() || one.askAt.Before(u.askAt) {
		u.askAt = one.askAt
	}
}

// due gives those of which the ledger is to be asked now.
func (u *unknowns) due(now time.Time) (due []*watch.Update) {
	if u.askAt.IsZero() || now.Before(u.askAt) {
		return nil
	}
	u.askAt = time.Time{}
	for at := range u.all {
		one := &u.all[at]
		if !now.Before(one.askAt) {
			due = append(due, one.update)
			one.askAt = now.Add(max(askAgainAfter, now.Sub(one.since)))
		}
		if u.askAt.IsZero() || one.askAt.Before(u.askAt) {
			u.askAt = one.askAt
		}
	}
	if soonest := now.Add(askAgainAfter); !u.askAt.IsZero() && u.askAt.Before(soonest) {
		u.askAt = soonest
	}
	return due
}

// known forgets one that the ledger knows by now, and gives its update as one that has just come: the initial states
// are over, and the encoding that all watchers share may be that of a generation of nobody.
func (u *unknowns) known(update *watch.Update) *watch.Update {
	at := u.find(update.Generation.ID)
	if at < 0 {
		return update
	}
	u.all = slices.Delete(u.all, at, at+1)
	late := *update
	late.Initial, late.Memo = false, nil
	return &late
}

func (u *unknowns) find(id string) int {
	return slices.IndexFunc(u.all, func(one unknown) bool { return one.update.Generation.ID == id })
}
