package simulation

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// front stands before the sandbox: it counts what arrives, and can hide young renders.
type front struct {
	world *world
	next  http.Handler

	mu     sync.Mutex
	posts  int
	lag    time.Duration
	hidden int
	born   map[string]time.Time
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.hides(r) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":"GENERATION_NOT_FOUND","message":"There is no such generation."}`))
		return
	}
	f.next.ServeHTTP(w, r)
}

func (f *front) hides(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, sandbox.BasePath+"/generations")
	if r.Method == http.MethodPost && path == "" {
		f.posts++
	}
	born, known := f.born[strings.TrimPrefix(path, "/")]
	if r.Method != http.MethodGet || !known || time.Since(born) >= f.lag {
		return false
	}
	f.hidden++
	return true
}

// placed notes when a caller heard of its render.
func (f *front) placed(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.born[id]; !known {
		f.born[id] = time.Now()
	}
}

func (f *front) hide(lag time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lag = lag
}

func (f *front) fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hidden
}
