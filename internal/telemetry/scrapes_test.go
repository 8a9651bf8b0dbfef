package telemetry

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
)

// stuckReader is a response writer whose client does not read. Writes block until freed is closed.
type stuckReader struct {
	*httptest.ResponseRecorder
	freed chan struct{}
}

func (r stuckReader) Write(p []byte) (int, error) {
	<-r.freed
	return r.ResponseRecorder.Write(p)
}

func TestConcurrentScrapesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics, freed := newScrapeHandler(newRegistry()), make(chan struct{})
		scrape := func(w http.ResponseWriter) {
			metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		}
		for range scrapesAtOnce {
			go scrape(stuckReader{httptest.NewRecorder(), freed})
		}
		synctest.Wait()
		late := httptest.NewRecorder()
		if scrape(late); late.Code != http.StatusServiceUnavailable {
			t.Errorf("a scrape above the limit returned %d", late.Code)
		}
		close(freed)
		synctest.Wait()
		next := httptest.NewRecorder()
		if scrape(next); next.Code != http.StatusOK {
			t.Errorf("the next scrape returned %d", next.Code)
		}
	})
}
