package telemetry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

const canary = "sk_live_canary"

// recordSpans installs a global tracer provider until the end of the test. It returns the exporter that
// collects the test's spans.
func recordSpans(t *testing.T) *tracetest.InMemoryExporter {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	traces, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() {
		otel.SetTracerProvider(traces)
		otel.SetTextMapPropagator(propagator)
	})
	return exporter
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// sendRequest sends a request in the same way as the catalog client, and reads the response.
func sendRequest(t *testing.T, transport http.RoundTripper, url string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/generations/gen_1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Pattern = "GET /generations/{id}"
	r.Header.Set("Authorization", "Bearer "+canary)
	r.Header.Set("Idempotency-Key", canary)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func TestSpanOfACatalogRequestOmitsTheAPIKey(t *testing.T) {
	exporter := recordSpans(t)
	var traceparent string
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		traceparent = r.Header.Get("traceparent")
	}))
	defer upstream.Close()
	if err := sendRequest(t, UpstreamTransport(http.DefaultTransport, slog.New(slog.DiscardHandler)), upstream.URL); err != nil {
		t.Fatal(err)
	}
	spans := exporter.GetSpans()
	if len(spans) != 1 || spans[0].Name != "GET /generations/{id}" {
		t.Fatalf("got the spans %+v, want one", spans)
	}
	if id := spans[0].SpanContext.TraceID().String(); !strings.Contains(traceparent, id) {
		t.Errorf("the catalog received the trace %q, not %s", traceparent, id)
	}
	if all := fmt.Sprintf("%+v", spans); strings.Contains(all, canary) {
		t.Errorf("the span contains the key: %s", all)
	}
	if got := spans[0].Status.Code; got != codes.Unset {
		t.Errorf("after a successful response the span is %v", got)
	}
}

func TestAFailedRequestMakesTheSpanAnError(t *testing.T) {
	answer := func(code int, body io.Reader) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Body: io.NopCloser(body), Request: r, Proto: "HTTP/1.1"}, nil
		}
	}
	for _, test := range []struct {
		name string
		base roundTrip
	}{
		{"a network error", func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }},
		{"a server error", answer(http.StatusInternalServerError, strings.NewReader(""))},
		{"a client error", answer(http.StatusNotFound, strings.NewReader(""))},
		{"a truncated body", answer(http.StatusOK, io.MultiReader(strings.NewReader("half"), brokenReader{}))},
	} {
		t.Run(test.name, func(t *testing.T) {
			exporter := recordSpans(t)
			_ = sendRequest(t, UpstreamTransport(test.base, slog.New(slog.DiscardHandler)), "http://catalog.test") // the request fails; the test checks only its span
			spans := exporter.GetSpans()
			if len(spans) != 1 || spans[0].Status.Code != codes.Error {
				t.Errorf("got the spans %+v, want one error", spans)
			}
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestSpanOfARequestWithoutPatternIsNamedByItsMethod(t *testing.T) {
	r := httptest.NewRequest(http.MethodDelete, "/generations/gen_1", nil)
	if got := spanName("", r); got != "DELETE" {
		t.Errorf("the span is named %q", got)
	}
}

func TestCatalogGetsTraceIDsButNoTracestateOrBaggage(t *testing.T) {
	startTelemetry(t, Config{LogOutput: io.Discard}) // sets the global propagator
	caller := propagation.MapCarrier{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"tracestate":  "vendor=" + canary,
		"baggage":     "customer=" + canary,
	}
	ctx := otel.GetTextMapPropagator().Extract(t.Context(), caller)
	if baggage.FromContext(ctx).Len() != 1 {
		t.Fatal("the caller's baggage was not extracted")
	}
	var sent http.Header
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r.Header
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r, Proto: "HTTP/1.1"}, nil
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://catalog.test/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := UpstreamTransport(base, slog.New(slog.DiscardHandler)).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if got := sent.Get("traceparent"); !strings.Contains(got, "0af7651916cd43dd8448eb211c80319c") {
		t.Errorf("traceparent is %q", got)
	}
	if all := fmt.Sprint(sent); strings.Contains(all, canary) {
		t.Errorf("the catalog received the tracestate or baggage: %s", all)
	}
}

// startServer starts a server that responds to one request with exactly the given bytes.
func startServer(t *testing.T, bytes string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, bytes)
		}
	}()
	return "http://" + l.Addr().String()
}

func TestAPIKeyInMalformedResponseAppearsInNoSpan(t *testing.T) {
	for _, broken := range []string{
		canary, "HTTP/1.1 " + canary, "HTTP/1.1 200 OK\r\n" + canary, "HTTP/1.1 200 OK\r\nContent-Length: " + canary,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canary,
	} {
		t.Run(broken, func(t *testing.T) {
			c := &collector{}
			plain := httptest.NewServer(c)
			t.Cleanup(plain.Close)
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", plain.URL)
			_, shutdown := startTelemetry(t, Config{LogOutput: io.Discard})
			base := &http.Transport{}
			t.Cleanup(base.CloseIdleConnections)
			if err := sendRequest(t, UpstreamTransport(base, slog.New(slog.DiscardHandler)), startServer(t, broken+"\r\n\r\n")); err == nil {
				t.Fatal("the malformed response caused no error")
			}
			if err := shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			span := c.got[0].spans.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0]
			if span.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || strings.Contains(span.String(), canary) {
				t.Errorf("the span has no error status, or contains the API key: %v", span)
			}
		})
	}
}
