package limiter

// IsValid reports whether the permit may still be used: it was not released, and no pause has started since it was granted.
func (p *Permit) IsValid() bool {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	return !p.released && p.pauses == p.limiter.pause.count
}
