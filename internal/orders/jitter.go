package orders

import (
	"math/rand/v2"
	"sync"
	"time"
)

// jitter is the random source of the pauses between attempts. Concurrent submissions share it: a seeded run repeats
// where the order of its calls does.
type jitter struct {
	mu     sync.Mutex
	random *rand.Rand
}

// newJitter makes a source with the given seed; 0 takes a random one.
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
