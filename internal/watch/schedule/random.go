package schedule

import "time"

// Jitter moves d by up to a tenth either way, so that no two polls stay in step. u is
// drawn evenly from [0, 1).
func Jitter(d time.Duration, u float64) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*u))
}

// Source is the random source of one owner. The numbers of one owner do not depend on the others, so that
// a run can be repeated. It is splitmix64 (G. L. Steele et al., 2014): eight bytes, and good enough to
// spread polls.
type Source uint64

// NewSource makes the source of an owner: the same for the same seed and name.
func NewSource(seed uint64, name string) Source { return Source(fnv(seed, name)) }

// Draw gives an evenly distributed number in [0, 1).
func (s *Source) Draw() float64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

// Fingerprint is a hash of a name, where a rare collision does no harm.
func Fingerprint(name string) uint64 { return fnv(0, name) }

// fnv is the hash FNV-1a.
func fnv(seed uint64, name string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset) ^ seed
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * prime
	}
	return hash
}
