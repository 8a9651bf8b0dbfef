package cli

import (
	"slices"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// gathering holds back the renders that a watch of everything begins with until all of
// them are there, because they come in any order and are read from the oldest to the newest.
type gathering struct {
	next     func(event)
	caughtUp func() // called once, when all that was there has been handed on

	held []event
	done bool
}

func (g *gathering) seen(e event) {
	if e.update != nil && !g.done {
		g.held = append(g.held, e)
		return
	}
	g.release() // whatever else comes, nobody should wait longer for what is there
	g.next(e)
	if e.caughtUp != nil && !g.done {
		g.done = true
		g.caughtUp()
	}
}

// release hands on what is held back, the oldest render first.
func (g *gathering) release() {
	slices.SortStableFunc(g.held, func(a, b event) int {
		return created(a.update.Generation).Compare(created(b.update.Generation))
	})
	for _, e := range g.held {
		g.next(e)
	}
	g.held = nil
}

// created is when a render was ordered. One that does not say is taken for old.
func created(g *easelv1.Generation) time.Time {
	if g.CreateTime == nil {
		return time.Time{}
	}
	return g.CreateTime.AsTime()
}
