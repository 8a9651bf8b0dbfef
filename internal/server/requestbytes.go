package server

import "sync"

// largeRequest is how many bytes a request may have without counting against the budget: a message of
// this size fits into the window that a stream begins with.
const largeRequest = 64 << 10

// requestBytes is the budget for the bytes of all requests: of requests that are being received, and of
// large requests until their calls have ended. An owner may take half of it, and a little when others
// have taken all. The owner "" is all unverified API keys together,
// which may take an eighth.
type requestBytes struct {
	all     int
	refused refusals

	mu    sync.Mutex
	held  map[string]int // by owner; none is 0
	total int
}

func newRequestBytes(all int) *requestBytes {
	return &requestBytes{all: all, held: map[string]int{}}
}

func (b *requestBytes) limit(owner string) int {
	if owner == "" {
		return b.all / unverifiedPart
	}
	return b.all / 2
}

// little is how much an owner may hold even when others have taken all: a request or two.
func (b *requestBytes) little() int { return b.all / 32 }

// add changes what an owner holds, unless it would be too much.
func (b *requestBytes) add(owner string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.held[owner] + n
	if n > 0 && (held > b.limit(owner) || b.total+n > b.all && held > b.little()) {
		return false
	}
	b.total += n
	if b.held[owner] = held; held == 0 {
		delete(b.held, owner)
	}
	return true
}

// of is what one request of an owner holds: nothing yet.
func (b *requestBytes) of(owner string) heldBytes { return heldBytes{budget: b, owner: owner} }

// heldBytes is what one request holds of the budget.
type heldBytes struct {
	budget *requestBytes
	owner  string
	bytes  int
}

// set changes how many bytes the request holds, or refuses.
func (h *heldBytes) set(bytes int) error {
	if bytes == h.bytes {
		return nil
	}
	if !h.budget.add(h.owner, bytes-h.bytes) {
		return overload("more bytes of requests are on their way than this server has room for", h.budget.refused.delay())
	}
	h.bytes = bytes
	return nil
}

// arrived keeps counting a large request until its call has ended, but for a call that may last.
func (h *heldBytes) arrived(method string, bytes int) error {
	if longLived[method] {
		bytes = 0
	}
	return h.keep(bytes)
}

// keep keeps counting a large request until it is released.
func (h *heldBytes) keep(bytes int) error {
	if bytes <= largeRequest {
		bytes = 0
	}
	return h.set(bytes)
}

// release gives back what is held.
func (h *heldBytes) release() { _ = h.set(0) } // less is never refused
