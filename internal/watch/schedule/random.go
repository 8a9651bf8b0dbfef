package schedule

import "time"

// Jitter returns d, changed by up to a tenth in either direction, so that polls do not stay synchronized. u is a random
// number in [0, 1) that determines the change.
func Jitter(d time.Duration, u float64) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*u))
}

// Source generates random numbers for one object, such as a generation. Draws from other sources do not affect these numbers,
// so runs are reproducible. The generator is splitmix64 (G. L. Steele et al., 2014), which needs eight bytes and is good
// enough to spread polls.
type Source uint64

// NewSource returns a random source for the object with the given name. The same seed and name always yield the same numbers.
func NewSource(seed uint64, name string) Source { return Source(fnv(seed, name)) }

// Draw returns a uniformly distributed number in [0, 1).
func (s *Source) Draw() float64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

// Fingerprint returns a 64-bit hash of a name. Use it only where a rare collision does no harm.
func Fingerprint(name string) uint64 { return fnv(0, name) }

// fnv returns the FNV-1a hash of a name. seed changes the initial value.
func fnv(seed uint64, name string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset) ^ seed
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * prime
	}
	return hash
}
