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

// dice is the one source of chance of a sandbox. With a seed, the same requests in the same order get
// the same ids, keys, render times and failures.
type dice struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

// newDice mixes the seed with the number of generations and keys that are there already, so that a file
// opened again with the same seed does not draw the same ones again.
func newDice(seed uint64, generations, keys int64) *dice {
	var key [32]byte
	if seed == 0 {
		crand.Read(key[:]) // never fails
	} else {
		binary.LittleEndian.PutUint64(key[0:], seed)
		binary.LittleEndian.PutUint64(key[8:], uint64(generations))
		binary.LittleEndian.PutUint64(key[16:], uint64(keys))
	}
	return &dice{rnd: rand.New(rand.NewChaCha8(key))}
}

// word draws n characters that are safe in a URL and easy to read aloud.
func (d *dice) word(n int) string {
	const letters = "0123456789abcdefghjkmnpqrstvwxyz"
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[d.rnd.IntN(len(letters))]
	}
	return string(out)
}

// number draws a 16-digit id: exact as a double, but wrong when printed as one in the usual short form.
func (d *dice) number() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strconv.FormatInt(1e15+d.rnd.Int64N(8e15), 10)
}

// chance is true in the given share of cases.
func (d *dice) chance(share float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.Float64() < share
}

// pace is how long the renders of a model take: log-normal around a median. A share of them may belong
// to a second, slower kind, as when a machine has to be warmed up first.
type pace struct {
	median    time.Duration
	sigma     float64
	slow      time.Duration
	slowShare float64
}

func (d *dice) duration(p pace) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	median := p.median
	if d.rnd.Float64() < p.slowShare {
		median = p.slow
	}
	return time.Duration(float64(median) * math.Exp(p.sigma*d.rnd.NormFloat64()))
}
