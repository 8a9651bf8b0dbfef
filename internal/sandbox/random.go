package sandbox

import (
	crand "crypto/rand"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// randomSource is the one random source of a sandbox. With a seed, the same requests in the same order get
// the same ids, API keys, durations and failures.
type randomSource struct {
	mu      sync.Mutex
	numbers *rand.Rand
}

// newRandomSource mixes the seed with the number of existing generations and API keys, so that a file
// that is opened again with the same seed does not draw the same ones again.
func newRandomSource(seed uint64, generations, keys int64) *randomSource {
	var key [32]byte
	if seed == 0 {
		crand.Read(key[:]) // never fails
	} else {
		binary.LittleEndian.PutUint64(key[0:], seed)
		binary.LittleEndian.PutUint64(key[8:], uint64(generations))
		binary.LittleEndian.PutUint64(key[16:], uint64(keys))
	}
	return &randomSource{numbers: rand.New(rand.NewChaCha8(key))}
}

// token draws n characters that are safe in a URL and easy to read aloud.
func (r *randomSource) token(n int) string {
	const letters = "0123456789abcdefghjkmnpqrstvwxyz"
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[r.numbers.IntN(len(letters))]
	}
	return string(out)
}

// number draws a 16-digit id: exact as a double, but wrong when printed as one in the usual short form.
func (r *randomSource) number() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strconv.FormatInt(1e15+r.numbers.Int64N(8e15), 10)
}

// chance is true in the given share of cases.
func (r *randomSource) chance(share float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.numbers.Float64() < share
}

// durations is how long the generations of a model take: log-normal around a median. A share of them may
// belong to a second, slower kind, as when a machine has to be warmed up first.
type durations struct {
	median    time.Duration
	sigma     float64
	slow      time.Duration
	slowShare float64
}

func (r *randomSource) duration(d durations) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	median := d.median
	if r.numbers.Float64() < d.slowShare {
		median = d.slow
	}
	return time.Duration(float64(median) * math.Exp(d.sigma*r.numbers.NormFloat64()))
}
