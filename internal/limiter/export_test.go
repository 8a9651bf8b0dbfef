package limiter

// Owners is how many owners are remembered.
func (g *Limiter) Owners() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.owners)
}
