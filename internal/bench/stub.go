package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// basePath is the path of the catalog's base URL.
const basePath = "/api/v1/api/catalog"

// stub is a catalog with fixed responses. A measurement changes the responses with the stub's methods.
type stub struct {
	polls    atomic.Int64 // number of requests that read the state of generations
	taken    atomic.Int64 // number of orders
	unlisted atomic.Bool  // whether the list is empty; otherwise, it contains all active generations

	mu          sync.Mutex
	generations map[string]*generation
	order       []*generation // latest last
}

// generation is a generation in the stub. It stays queued.
type generation struct {
	id       string
	created  time.Time
	progress int       // progress in the record; incrementProgress increments it
	shown    time.Time // time when the record was first sent with the current progress; zero if it was not sent yet, or if progress is 0
}

// addGeneration adds a generation that stays active.
func (s *stub) addGeneration(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &generation{id: id, created: time.Now()}
	s.generations[id] = g
	s.order = append(s.order, g)
}

// addActive adds n generations that stay active, with the IDs g0, g1 and so on.
func (s *stub) addActive(n int) {
	for i := range n {
		s.addGeneration("g" + strconv.Itoa(i))
	}
}

// incrementProgress increments a generation's progress, so that its record changes.
func (s *stub) incrementProgress(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generations[id].shown = time.Time{}
	s.generations[id].progress++
}

// firstSent returns the time when the record of a generation was first sent with the current progress. The
// time is zero if the record was not sent, or if the progress is 0.
func (s *stub) firstSent(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generations[id].shown
}

// handler returns the HTTP handler of the catalog.
func (s *stub) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+basePath+"/me", func(w http.ResponseWriter, _ *http.Request) {
		send(w, []byte(`{"balanceCents":100000}`))
	})
	mux.HandleFunc("GET "+basePath+"/generations", func(w http.ResponseWriter, _ *http.Request) { send(w, s.listActive()) })
	mux.HandleFunc("GET "+basePath+"/generations/{id}", func(w http.ResponseWriter, r *http.Request) {
		if record := s.recordOf(r.PathValue("id")); record != nil {
			send(w, record)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	mux.HandleFunc("POST "+basePath+"/quote", func(w http.ResponseWriter, _ *http.Request) { send(w, []byte(`{"costCents":28}`)) })
	mux.HandleFunc("POST "+basePath+"/generations", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		send(w, s.acceptOrder())
	})
	return mux
}

func send(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// listActive returns the list of active generations, newest first, or an empty list if unlisted is set.
func (s *stub) listActive() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls.Add(1)
	var records [][]byte
	if !s.unlisted.Load() {
		for _, g := range slices.Backward(s.order) {
			records = append(records, s.encodeRecord(g))
		}
	}
	return fmt.Appendf(nil, `{"generations":[%s]}`, bytes.Join(records, []byte{','}))
}

// acceptOrder accepts an order and returns the record of its generation, which stays active. The IDs of
// generations are g0, g1 and so on.
func (s *stub) acceptOrder() []byte {
	id := "g" + strconv.FormatInt(s.taken.Add(1)-1, 10)
	s.addGeneration(id)
	return s.recordOf(id)
}

// recordOf returns the record of a generation, or nil if there is no such generation.
func (s *stub) recordOf(id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.generations[id]
	if g == nil {
		return nil
	}
	s.polls.Add(1)
	return s.encodeRecord(g)
}

// encodeRecord returns the record of a generation as JSON. The record has about 400 bytes.
func (s *stub) encodeRecord(g *generation) []byte {
	if g.shown.IsZero() && g.progress > 0 {
		g.shown = time.Now()
	}
	return fmt.Appendf(nil, `{"id":%q,"modelId":"studio/landscape","status":"queued","costCents":28,"createdAt":%q,`+
		`"inputs":{"prompt":"a calm sea at dusk with three small boats and a lighthouse","size":"1600x1000","seed":4711},`+
		`"queue":"standard","region":"eu-central","progress":%d}`,
		g.id, g.created.UTC().Format(time.RFC3339Nano), g.progress)
}
