package cluster

import (
	"time"

	"github.com/easel-grpc/easel/internal/watch"
	"github.com/easel-grpc/easel/internal/watch/budget"
)

// suspectTime is how long a member counts that fell silent without a farewell: it may be polling alone.
// A crashed replica is mostly started again, and takes its old place long before.
const suspectTime = time.Hour

// departedTime is how long a departed member is remembered. Until then its last messages still count as
// recent, and must not bring it back.
const departedTime = 2*clockSpan + silence

// maxMembers bounds the memory that invented members take: a caller knows its own API key, and can forge
// messages under it.
const maxMembers = 1000

// membership holds the other replicas that share a credential, by name.
type membership map[string]*member

type member struct {
	heardAt  time.Time                // its last message
	windows  map[string]*replayWindow // by subject
	recent   bool                     // a message of it was proven recent; false for a member that came while nobody led
	departed uint64                   // sequence number of its farewell, as earlier messages may come after it; zero: it is here
}

// replayWindow knows which of the last messages of a sender have come.
type replayWindow struct {
	top  uint64 // the newest
	mask uint64 // bit n: top - n has come
}

// admit reports whether a message has not come before. It refuses one that is too late to tell.
func (w *replayWindow) admit(seq uint64) bool {
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

// add adds a member. It takes the place of the member that has been silent for the longest time.
func (c membership) add(name string, now time.Time) *member {
	m := c[name]
	if m == nil {
		if silent, ok := c.longestSilent(now); ok {
			delete(c, silent)
		}
		m = &member{windows: map[string]*replayWindow{}}
		c[name] = m
	}
	m.heardAt, m.departed = now, 0
	return m
}

// accept notes a message, and reports whether it is new: a repeat is no sign of life.
func (c membership) accept(m message, subject string, now time.Time) bool {
	one := c[m.From]
	if one == nil {
		one = c.add(m.From, now)
	}
	if one.windows[subject] == nil {
		one.windows[subject] = &replayWindow{}
	}
	if !one.windows[subject].admit(m.Seq) || m.Seq < one.departed {
		return false
	}
	one.heardAt, one.departed = now, 0 // a member that only gave its lease back goes on
	return true
}

// longestSilent gives the member that has been silent for the longest time. Below the limit only a silent
// member counts.
func (c membership) longestSilent(now time.Time) (name string, ok bool) {
	first := now.Add(-silence)
	if len(c) >= maxMembers {
		first = now
	}
	for other, one := range c {
		if (one.departed == 0 || len(c) >= maxMembers) && !one.heardAt.After(first) {
			name, first, ok = other, one.heardAt, true
		}
	}
	return name, ok
}

// keepAll keeps every member from being forgotten: this replica itself is cut off and hears nobody.
func (c membership) keepAll(now time.Time) {
	for _, one := range c {
		if silent := now.Add(-silence); one.heardAt.Before(silent) {
			one.heardAt = silent
		}
	}
}

// depart notes the farewell of a member.
func (c membership) depart(m message) { c[m.From].departed = m.Seq }

// beforeFarewell reports whether a message was sent before a farewell that has come.
func (c membership) beforeFarewell(m message) bool {
	return c[m.From] != nil && m.Seq < c[m.From].departed
}

// size counts the live and the suspected members, this replica among them, and forgets the others.
func (c membership) size(now time.Time) groupSize {
	count := groupSize{Live: 1}
	for name, one := range c {
		switch silent := now.Sub(one.heardAt); {
		case one.departed != 0 && silent < departedTime:
		case one.departed != 0:
			delete(c, name)
		case silent < silence:
			count.Live++
		case one.recent && silent < suspectTime:
			count.Suspected++
		default:
			delete(c, name)
		}
	}
	return count
}

// groupSize is how many replicas share a credential, this one among them.
type groupSize struct {
	Live      int // heard a moment ago
	Suspected int // fell silent without a farewell: they may poll alone, where nobody hears them
}

const (
	ownEvery = time.Minute // between a follower's own polls of one generation, times the number of replicas
	ownShare = 1.0 / 20    // of the rate, for the own polls of all followers together
)

// assign gives a role its shares. All replicas of a credential keep to the configured rate together, also
// where they can't hear each other. The leader hears what the followers spend, and polls less; the reserved
// share is out of the followers' reach.
func (m groupSize) assign(role watch.Role, until time.Time) watch.Assignment {
	live, all := float64(m.Live), float64(m.Live+m.Suspected)
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
