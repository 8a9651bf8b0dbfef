package cluster

import (
	"time"

	"github.com/easel-grpc/easel/internal/watch"
	"github.com/easel-grpc/easel/internal/watch/budget"
)

// ghostTime is how long one counts that fell silent without a farewell: it may be polling alone. One
// that crashed is mostly started again, and then its place is taken long before.
const ghostTime = time.Hour

// farewellTime is how long one is remembered that has left: for as long as what it said proves that it is of
// now, so that nothing of that brings it back.
const farewellTime = 2*tickTime + silence

// crowdMost bounds the memory that members take who are made up: a caller knows its own key.
const crowdMost = 1000

// crowd is who else shares a credential, by name.
type crowd map[string]*member

type member struct {
	at     time.Time          // when it was heard last
	had    map[string]*window // by subject
	proven bool               // it has said something that is of now; else it is one that nobody knew while nobody led
	gone   uint64             // number of its farewell; zero: it is here. Kept for what it said before and comes after
}

// window knows which of the last messages of a sender have come.
type window struct {
	top  uint64 // the newest
	mask uint64 // bit n: top - n has come
}

// admit reports whether a message has not come before, and is not so late that this can't be
// told.
func (w *window) admit(seq uint64) bool {
	if seq > w.top {
		w.mask = w.mask<<(seq-w.top) | 1
		w.top = seq
		return true
	}
	bit := uint64(1) << (w.top - seq) // 0 where it is too late
	if bit == 0 || w.mask&bit != 0 {
		return false
	}
	w.mask |= bit
	return true
}

// seen notes a sign of life. One who is new takes the place of the one that has been silent for the
// longest time.
func (c crowd) seen(name string, now time.Time) *member {
	m := c[name]
	if m == nil {
		if ghost, ok := c.ghost(now); ok {
			delete(c, ghost)
		}
		m = &member{had: map[string]*window{}}
		c[name] = m
	}
	m.at, m.gone = now, 0
	return m
}

// heard notes a message, and reports whether it is no repeat: those are no sign of life.
func (c crowd) heard(m message, subject string, now time.Time) bool {
	one := c[m.From]
	if one == nil {
		one = c.seen(m.From, now)
	}
	if one.had[subject] == nil {
		one.had[subject] = &window{}
	}
	if !one.had[subject].admit(m.Seq) || m.Seq < one.gone {
		return false
	}
	one.at, one.gone = now, 0 // who only gave the lease back says more
	return true
}

// ghost gives the one that has been silent for the longest time, where it is silent at all or there
// is no room.
func (c crowd) ghost(now time.Time) (name string, ok bool) {
	first := now.Add(-silence)
	if len(c) >= crowdMost {
		first = now
	}
	for other, one := range c {
		if (one.gone == 0 || len(c) >= crowdMost) && !one.at.After(first) {
			name, first, ok = other, one.at, true
		}
	}
	return name, ok
}

// hold keeps all from being forgotten: it is this replica that hears nothing.
func (c crowd) hold(now time.Time) {
	for _, one := range c {
		if silent := now.Add(-silence); one.at.Before(silent) {
			one.at = silent
		}
	}
}

// left notes a farewell of one that was heard.
func (c crowd) left(m message) { c[m.From].gone = m.Seq }

// late reports whether a message was said before a farewell that has come.
func (c crowd) late(m message) bool { return c[m.From] != nil && m.Seq < c[m.From].gone }

// count counts those who are here and those who may be, this replica among them.
func (c crowd) count(now time.Time) membership {
	count := membership{Live: 1}
	for name, one := range c {
		switch silent := now.Sub(one.at); {
		case one.gone != 0 && silent < farewellTime:
		case one.gone != 0:
			delete(c, name)
		case silent < silence:
			count.Live++
		case one.proven && silent < ghostTime:
			count.Lost++
		default:
			delete(c, name)
		}
	}
	return count
}

// membership is how many replicas share a credential, this one among them.
type membership struct {
	Live int // heard of a moment ago
	Lost int // that fell silent without a farewell: they may poll alone, where nobody hears them
}

const (
	ownEvery = time.Minute // between a follower's own polls of one thing, times how many share the credential
	ownShare = 1.0 / 20    // of the rate that all followers' own polls together may take
)

// assign gives a role its shares. All that share a credential keep to the configured rate together, also
// where they can't hear each other. What followers use the leader hears of, and yields; what is reserved is
// out of their reach.
func (m membership) assign(role watch.Role, until time.Time) watch.Assignment {
	live, all := float64(m.Live), float64(m.Live+m.Lost)
	others := max(live-1, 1)
	a := watch.Assignment{
		Role: role, Until: until, Share: live / all, AloneShare: 1 / all,
		OwnEvery: ownEvery * time.Duration(max(m.Live, 2)), OwnShare: ownShare / others,
	}
	if role == watch.Follower {
		a.Share *= (1 - budget.Reserved) / others
	}
	return a
}
