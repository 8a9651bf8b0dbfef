package rest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestAWatchThatBreaksOffHasTheSpanOfItsEnd(t *testing.T) {
	spans := servertest.RecordSpans(t)
	handler := traceRequests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		matchedOf(r.Context()).serve(w, r, watchPath, func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			panic(http.ErrAbortHandler)
		})
	}))
	func() {
		defer func() { _ = recover() }() // as net/http does
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/generations/g:watch", nil))
	}()
	isEnd := func(s tracetest.SpanStub) bool { return s.Name == "GET "+watchPath+" end" }
	if all := spans.GetSpans(); !slices.ContainsFunc(all, isEnd) {
		t.Errorf("of the %d spans none tells of its end", len(all))
	}
}
