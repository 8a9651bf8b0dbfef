package catalog

import (
	"math/rand/v2"
	"sync"
	"time"
)

// jitter draws the waits of one client. Calls draw at the same time, so that the numbers
// of a seeded run are the same where the order of its calls is.
type jitter struct {
	mu     sync.Mutex
	random *rand.Rand
}

// newJitter makes a source of the given seed; 0 takes a random one.
func newJitter(seed uint64) *jitter {
	if seed == 0 {
		seed = rand.Uint64()
	}
	return &jitter{random: rand.New(rand.NewPCG(seed, 0))}
}

// below draws from 0 up to limit, which must be above 0 and is never drawn itself.
func (j *jitter) below(limit time.Duration) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Duration(j.random.Int64N(int64(limit)))
}
