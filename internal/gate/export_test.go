package gate

// Owners is how many owners are remembered.
func (g *Gate) Owners() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.owners)
}
