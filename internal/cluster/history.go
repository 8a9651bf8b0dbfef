package cluster

import (
	"maps"
	"sync"
	"time"
)

// history remembers for a while how many replicas shared each credential that this replica no longer
// watches with. When it watches again while NATS is away, it can't count them.
type history struct {
	mu    sync.Mutex
	sizes map[string]pastSize // by the name of the seal
}

// pastSize is how many replicas shared a credential, this one among them, when it left them.
type pastSize struct {
	count int
	at    time.Time
}

// remember notes how many replicas there are, and forgets old sizes.
func (p *history) remember(name string, count int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sizes == nil {
		p.sizes = map[string]pastSize{}
	}
	maps.DeleteFunc(p.sizes, func(other string, one pastSize) bool { return other == name || now.Sub(one.at) >= suspectTime })
	if count > 1 {
		p.sizes[name] = pastSize{count, now}
	}
}

// size gives how many replicas shared a credential; 0: that is not known.
func (p *history) size(name string, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.sizes[name]; now.Sub(one.at) < suspectTime {
		return one.count
	}
	return 0
}
