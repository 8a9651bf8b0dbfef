package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestAWatchThatBreaksOffHasTheSpanOfItsEnd(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
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
