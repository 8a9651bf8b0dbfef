package telemetry

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/easel-grpc/easel/internal/telemetry"

// UpstreamTransport makes a span and a measurement of every request that base sends, by the
// names of OpenTelemetry's conventions, and lets the trace go on in the catalog. The span is
// named by the request's Pattern, which the sender sets as in "GET /generations/{id}": ids
// would make as many names as there are renders. A nil base is http.DefaultTransport.
//
// The catalog is told the ids of the trace and nothing else: baggage and tracestate are
// what callers wrote for systems of their own, such as the name of a customer.
//
// Headers never become attributes, so a key that travels in one stays out of traces.
//
// The header of a request is written to as it is: who uses this transport makes a request
// for each attempt. The stock transport copies it, and makes anew for each request what is
// the same for all of a route.
func UpstreamTransport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	duration, err := httpconv.NewClientRequestDuration(otel.Meter(scope))
	if err != nil {
		otel.Handle(err) // the names are constants: it can't be
	}
	return &upstream{base: base, tracer: otel.Tracer(scope), duration: duration.Inst()}
}

type upstream struct {
	base     http.RoundTripper
	tracer   trace.Tracer
	duration metric.Float64Histogram
	outcomes sync.Map // of outcome to metric.MeasurementOption: a few dozen
}

// outcome is what requests are measured by.
type outcome struct {
	method, route string
	status        int
}

const traceparent = "Traceparent"

// RoundTrip implements http.RoundTripper. The span ends with the body of the answer.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	ctx, span := u.tracer.Start(r.Context(), spanName(r), trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(semconv.HTTPRequestMethodKey.String(r.Method), semconv.URLTemplate(route(r)), semconv.ServerAddress(r.URL.Hostname()))
	}
	if ids := span.SpanContext(); ids.IsValid() {
		r.Header.Set(traceparent, "00-"+ids.TraceID().String()+"-"+ids.SpanID().String()+"-"+ids.TraceFlags().String())
	}
	resp, err := u.base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		u.measure(r, 0, began)
		span.SetStatus(codes.Error, "no answer")
		span.RecordError(err)
		span.End()
		return resp, err
	}
	u.measure(r, resp.StatusCode, began)
	if span.IsRecording() {
		span.SetAttributes(semconv.HTTPResponseStatusCode(resp.StatusCode))
		if resp.StatusCode >= http.StatusBadRequest {
			span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(resp.StatusCode)))
			span.SetStatus(codes.Error, "")
		}
	}
	resp.Body = &spanBody{resp.Body, span}
	return resp, nil
}

// measure notes how long the head of an answer took; the status is 0 where there was none.
func (u *upstream) measure(r *http.Request, status int, began time.Time) {
	key := outcome{r.Method, route(r), status}
	option, ok := u.outcomes.Load(key)
	if !ok {
		option, _ = u.outcomes.LoadOrStore(key, metric.WithAttributeSet(key.attributes()))
	}
	u.duration.Record(r.Context(), time.Since(began).Seconds(), option.(metric.MeasurementOption))
}

func (o outcome) attributes() attribute.Set {
	all := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(o.method), semconv.URLTemplate(o.route)}
	switch {
	case o.status == 0:
		all = append(all, semconv.ErrorTypeOther)
	case o.status >= http.StatusBadRequest:
		all = append(all, semconv.ErrorTypeKey.String(strconv.Itoa(o.status)))
		fallthrough
	default:
		all = append(all, semconv.HTTPResponseStatusCode(o.status))
	}
	return attribute.NewSet(all...)
}

func spanName(r *http.Request) string {
	if r.Pattern != "" {
		return r.Pattern
	}
	return r.Method
}

// route is the pattern without its method.
func route(r *http.Request) string { return strings.TrimPrefix(r.Pattern, r.Method+" ") }

// spanBody ends a span with the body of the answer.
type spanBody struct {
	io.ReadCloser
	span trace.Span
}

// Read implements io.Reader.
func (b *spanBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.span.End()
	default:
		b.span.SetStatus(codes.Error, "the body broke off")
		b.span.RecordError(err)
	}
	return n, err
}

// Close implements io.Closer. To end a span again does nothing.
func (b *spanBody) Close() error {
	b.span.End()
	return b.ReadCloser.Close()
}
