package server

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// requestSpan is the tracing of one REST request. As with calls, one that lasts has a short
// span when it comes in and one when it ends.
type requestSpan struct {
	*tracing
	ctx    context.Context
	span   trace.Span
	began  time.Time
	method string // of the closed set
	route  string // "/v1/generations/{generation_id}", or "" where none takes it
	opened bool   // the span has ended at the opening
}

// traceRequests makes a span and a measurement of each REST request, and tells the caller
// the trace that it became part of.
func (t *tracing) traceRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := otel.GetTextMapPropagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		span := &requestSpan{tracing: t, began: time.Now(), method: knownMethod(r.Method)}
		ctx, span.span = t.tracer.Start(ctx, span.method, trace.WithSpanKind(trace.SpanKindServer))
		if span.span.IsRecording() {
			span.span.SetAttributes(semconv.HTTPRequestMethodKey.String(span.method), semconv.ClientAddress(host(r.RemoteAddr)))
		}
		span.ctx = ctx
		answer := &tracedAnswer{ResponseWriter: w}
		defer func() { span.end(answer.status()) }() // even where a handler breaks the connection off
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(w.Header()))
		next.ServeHTTP(answer, r.WithContext(context.WithValue(ctx, matchedKey{}, &matched{span: span})))
	})
}

// knownMethod keeps methods that callers make up out of names and labels.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodPut, http.MethodPatch:
		return method
	}
	return "_OTHER"
}

// routed names the span by the template of its route, never by its path: ids would make as
// many names as there are renders.
func (s *requestSpan) routed(template string) {
	if s == nil {
		return
	}
	s.route = template
	s.span.SetName(s.method + " " + template)
	s.span.SetAttributes(semconv.HTTPRoute(template))
	switch template {
	case watchPath, watchAllPath, waitPath:
		s.span.End()
		s.opened = true
	}
}

func (s *requestSpan) end(status int) {
	s.requests.Inst().Record(s.ctx, time.Since(s.began).Seconds(), s.requestOption(s.method, s.route, status))
	span := s.span
	if s.opened {
		_, span = s.tracer.Start(s.ctx, s.method+" "+s.route+" end", trace.WithSpanKind(trace.SpanKindInternal))
	}
	if span.IsRecording() {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	}
	span.End()
}

// answerKey is what requests are measured by.
type answerKey struct {
	method, route string
	status        int
}

// requestOption gives the labels of a request. There are a few hundred at most.
func (t *tracing) requestOption(method, route string, status int) metric.MeasurementOption {
	key := answerKey{method, route, status}
	option, ok := t.answers.Load(key)
	if !ok {
		all := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method), semconv.HTTPResponseStatusCode(status)}
		if route != "" {
			all = append(all, semconv.HTTPRoute(route))
		}
		option, _ = t.answers.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(all...)))
	}
	return option.(metric.MeasurementOption)
}

// tracedAnswer remembers the status of an answer.
type tracedAnswer struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (a *tracedAnswer) WriteHeader(code int) {
	if a.code == 0 && code >= http.StatusOK {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *tracedAnswer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *tracedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *tracedAnswer) status() int {
	if a.code == 0 {
		return http.StatusOK
	}
	return a.code
}
