package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// fabric is NATS as weak as it may be: what is published is lost, repeated, late and out of
// order; replicas are cut off; the tables are away for a while, and lose what they had.
type fabric struct {
	mu     sync.Mutex
	random *rand.Rand
	subs   []*modelSub
	tables [2]*modelTable // of leases and of states

	loss, twice float64       // shares of the messages
	delay       time.Duration // longest; what takes longer is overtaken
	down        bool
	deaf        *modelNet // what it asks of a leader is lost

	published, ignored, lost, repeated, overtaken int
	recorded                                      []recordedMessage // for a replay
}

type recordedMessage struct {
	from    *modelNet
	subject string
	data    []byte
}

type modelSub struct {
	owner   *modelNet
	subject string
	take    func([]byte)
	gone    bool
	last    time.Time // latest arrival
}

// modelNet is one replica's side of a fabric.
type modelNet struct {
	f      *fabric
	cut    bool
	island int // who is on another one gets nothing of it; the tables are on island 0
}

func newFabric(seed uint64) *fabric {
	f := &fabric{random: rand.New(rand.NewPCG(seed, 1))}
	f.tables = [2]*modelTable{newModelTable(f, leaseTTL), newModelTable(f, statesTTL)}
	return f
}

func (f *fabric) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// restart empties the tables and begins their revisions anew, as a server does that keeps
// them in memory.
func (f *fabric) restart() {
	f.with(func() {
		for _, t := range f.tables {
			t.values, t.revision, t.epoch = map[string]value{}, 0, time.Now().UnixNano()
		}
	})
}

func (n *modelNet) away() bool { return n.cut || n.f.down }

func (n *modelNet) up() bool {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	return !n.away()
}

func (n *modelNet) publish(subject string, data []byte) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.f.published++
	n.f.recorded = append(n.f.recorded, recordedMessage{n, subject, data})
	if n == n.f.deaf && strings.HasSuffix(subject, ".leader") {
		n.f.ignored++
		return
	}
	if n.away() {
		return
	}
	n.f.deliver(n, subject, data)
}

// deliver sends a message to all others, each in its own way; mu is held.
func (f *fabric) deliver(from *modelNet, subject string, data []byte) {
	for _, s := range f.subs {
		if s.subject != subject || s.gone || s.owner == from || s.owner.away() || from != nil && s.owner.island != from.island {
			continue
		}
		times := 1
		switch roll := f.random.Float64(); {
		case roll < f.loss:
			f.lost++
			continue
		case roll < f.loss+f.twice:
			f.repeated++
			times = 2
		}
		for range times {
			delay := time.Millisecond + time.Duration(f.random.Int64N(int64(f.delay+1)))
			at := time.Now().Add(delay)
			if at.Before(s.last) {
				f.overtaken++
			}
			s.last = at
			time.AfterFunc(delay, func() { f.arrive(s, data) })
		}
	}
}

func (f *fabric) arrive(s *modelSub, data []byte) {
	f.mu.Lock()
	gone := s.gone || s.owner.away()
	f.mu.Unlock()
	if !gone {
		s.take(data)
	}
}

func (n *modelNet) subscribe(subject string, take func([]byte)) (func(), error) {
	s := &modelSub{owner: n, subject: subject, take: take}
	n.f.with(func() { n.f.subs = append(n.f.subs, s) })
	return func() {
		n.f.with(func() {
			s.gone = true
			n.f.subs = slices.DeleteFunc(n.f.subs, func(one *modelSub) bool { return one == s })
		})
	}, nil
}

func (n *modelNet) leases() table { return modelView{n, n.f.tables[0]} }
func (n *modelNet) states() table { return modelView{n, n.f.tables[1]} }
func (n *modelNet) close()        {}

type modelTable struct {
	f        *fabric
	ttl      time.Duration
	epoch    int64
	revision uint64
	values   map[string]value
}

func newModelTable(f *fabric, ttl time.Duration) *modelTable {
	return &modelTable{f: f, ttl: ttl, epoch: time.Now().UnixNano(), values: map[string]value{}}
}

// modelView is a table as one replica reaches it.
type modelView struct {
	n *modelNet
	t *modelTable
}

// reach takes a moment, and fails where the table can't be reached. An answer may be lost
// after the table has done what was asked.
func (v modelView) reach(ctx context.Context) (lost bool, err error) {
	pause(ctx, time.Millisecond)
	v.t.f.mu.Lock()
	if v.n.away() || v.n.island != 0 {
		v.t.f.mu.Unlock()
		pause(ctx, time.Hour)
		v.t.f.mu.Lock()
		return false, errors.New("no answer")
	}
	return v.t.f.random.Float64() < v.t.f.loss/2, nil
}

// now is what a table has; mu is held.
func (t *modelTable) now(key string) (value, bool) {
	v, ok := t.values[key]
	return v, ok && time.Since(v.written) < t.ttl
}

func (v modelView) put(ctx context.Context, key string, data []byte, revision uint64) (uint64, error) {
	lost, err := v.reach(ctx)
	defer v.t.f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if has, _ := v.t.now(key); has.revision != revision {
		if _, ok := v.t.now(key); ok || revision != 0 {
			return 0, errConflict
		}
	}
	v.t.revision++
	v.t.values[key] = value{slices.Clone(data), v.t.revision, v.t.epoch, time.Now()}
	if lost {
		return 0, errors.New("the answer was lost")
	}
	return v.t.revision, nil
}

func (v modelView) get(ctx context.Context, key string) (value, error) {
	_, err := v.reach(ctx)
	defer v.t.f.mu.Unlock()
	if err != nil {
		return value{}, err
	}
	has, ok := v.t.now(key)
	if !ok {
		return value{}, errNotFound
	}
	return has, nil
}

func (v modelView) remove(ctx context.Context, key string, revision uint64) error {
	_, err := v.reach(ctx)
	defer v.t.f.mu.Unlock()
	if err != nil {
		return err
	}
	if has, ok := v.t.now(key); !ok || has.revision != revision {
		return errConflict
	}
	delete(v.t.values, key)
	return nil
}
