package cluster

import (
	"sync"
	"time"
)

// past remembers for a while how many shared each credential that this replica no longer watches
// with. Where it does so again while NATS is away, it can't hear how many they are.
type past struct {
	mu    sync.Mutex
	of    map[string]company // by the name of the seal
	swept time.Time
}

// company is how many shared a credential, this replica among them, when it was last one of them.
type company struct {
	count int
	at    time.Time
}

// note remembers how many there are.
func (p *past) note(name string, count int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]company{}
	}
	if now.Sub(p.swept) > time.Minute {
		p.sweep(now)
	}
	delete(p.of, name)
	if count > 1 {
		p.of[name] = company{count, now}
	}
}

// sweep forgets what is too old; mu is held.
func (p *past) sweep(now time.Time) {
	p.swept = now
	for name, one := range p.of {
		if now.Sub(one.at) >= ghostTime {
			delete(p.of, name)
		}
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
