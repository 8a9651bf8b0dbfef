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

// randomSource is the only source of random numbers in a sandbox. With the same seed, the same series of requests produces the
// same IDs, API keys, durations and failures.
type randomSource struct {
	mu     sync.Mutex
	source rand.Source
}

// newRandomSource creates a source of random numbers. generations and keys are the highest row IDs of generations and accounts
// in the database. They ensure that a sandbox that reopens its file with the same seed does not repeat random numbers. If the
// seed is zero, the numbers differ in every run.
func newRandomSource(seed uint64, generations, keys int64) *randomSource {
	var key [32]byte
	if seed == 0 {
		crand.Read(key[:]) // never fails
	} else {
		binary.LittleEndian.PutUint64(key[0:], seed)
		binary.LittleEndian.PutUint64(key[8:], uint64(generations))
		binary.LittleEndian.PutUint64(key[16:], uint64(keys))
	}
	return &randomSource{source: rand.NewChaCha8(key)}
}

// Uint64 implements [rand.Source].
func (r *randomSource) Uint64() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Uint64()
}

// token returns n random digits and lower-case letters. It does not use the letters i, l and o, which look like digits.
func (r *randomSource) token(n int) string {
	const letters = "0123456789abcdefghjkmnpqrstvwxyz"
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[rand.New(r).IntN(len(letters))]
	}
	return string(out)
}

// number returns an ID of 16 digits. A float64 can represent such an ID exactly, but programs may print it in exponential
// notation.
func (r *randomSource) number() string {
	return strconv.FormatInt(1e15+rand.New(r).Int64N(8e15), 10)
}

// chance returns true with the given probability, which is between 0 and 1.
func (r *randomSource) chance(share float64) bool { return rand.New(r).Float64() < share }

// durations describes the random render times of a model. They have a log-normal distribution with the given median and sigma.
// The fraction slowShare of the renders, from 0 to 1, takes longer, as if a machine had to start first. The field slow is the
// median of these renders.
type durations struct {
	median    time.Duration
	sigma     float64
	slow      time.Duration
	slowShare float64
}

func (r *randomSource) duration(d durations) time.Duration {
	numbers, median := rand.New(r), d.median
	if numbers.Float64() < d.slowShare {
		median = d.slow
	}
	return time.Duration(float64(median) * math.Exp(d.sigma*numbers.NormFloat64()))
}
