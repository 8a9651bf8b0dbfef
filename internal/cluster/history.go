package cluster

import (
	"maps"
	"sync"
	"time"
)

// past remembers for a while how many shared each credential that this replica no longer watches
// with. Where it does so again while NATS is away, it can't hear how many they are.
type past struct {
	mu sync.Mutex
	of map[string]company // by the name of the seal
}

// company is how many shared a credential, this replica among them, when it was last one of them.
type company struct {
	count int
	at    time.Time
}

// note remembers how many there are, and forgets what is too old.
func (p *past) note(name string, count int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]company{}
	}
	maps.DeleteFunc(p.of, func(other string, one company) bool { return other == name || now.Sub(one.at) >= ghostTime })
	if count > 1 {
		p.of[name] = company{count, now}
	}
}

// count gives how many shared a credential; 0: that is not known.
func (p *past) count(name string, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.of[name]; now.Sub(one.at) < ghostTime {
		return one.count
	}
	return 0
}
