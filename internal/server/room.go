package server

import "context"

// Room is how much of one of the limits is taken.
type Room struct {
	Name        string // "streams", "calls", "gRPC connections" or "HTTP connections"
	Taken, Most int
}

// Rooms tells how much of each limit for all callers together is taken now.
func (s *Server) Rooms() []Room {
	return []Room{
		{"streams", s.gates.streams.taken(), s.gates.streams.all},
		{"calls", s.gates.turns.taken(), s.gates.turns.limit[rankOrder]},
		{"gRPC connections", len(s.grpcRoom), cap(s.grpcRoom)},
		{"HTTP connections", len(s.httpRoom), cap(s.httpRoom)},
	}
}

// Serving reports whether calls should be sent here: not before Serve, nor in a drain.
func (s *Server) Serving(ctx context.Context) bool { return s.health.serving(ctx) }

func (q *quota) taken() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

func (t *turns) taken() (running int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.running {
		running += n
	}
	return running
}
