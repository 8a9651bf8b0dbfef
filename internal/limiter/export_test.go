package limiter

// IsValid reports whether the permit may still be used, which is true until it is released or a pause starts.
func (p *Permit) IsValid() bool {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	return !p.released && p.pauses == p.limiter.pause.count
}
