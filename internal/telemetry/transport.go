package telemetry

import (
	"encoding/hex"
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

	"github.com/easel-grpc/easel/internal/catalog"
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
	routes   sync.Map // of target to *upstreamRoute: a dozen
}

// target is what requests have in common: that of a pattern to a host.
type target struct{ pattern, method, host string }

// upstreamRoute is what the spans of a target have in common, made once.
type upstreamRoute struct {
	name     string
	about    []attribute.KeyValue // the first two are of measurements, too
	outcomes sync.Map             // of status to metric.MeasurementOption
}

// clientKind is what all spans of requests begin with.
var clientKind = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}

const traceparent = "Traceparent"

// RoundTrip implements http.RoundTripper. The span ends with the body of the answer.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	began, route := time.Now(), u.route(r)
	ctx, span := u.tracer.Start(r.Context(), route.name, clientKind...)
	if ids := span.SpanContext(); ids.IsValid() {
		r.Header[traceparent] = []string{headerOf(ids)}
	}
	resp, err := u.base.RoundTrip(r)
	status := 0
	if err == nil {
		status = resp.StatusCode
	}
	u.duration.Record(ctx, time.Since(began).Seconds(), route.outcome(status))
	if err != nil {
		if span.IsRecording() {
			span.SetAttributes(append(route.about[:3:3], attempt(r), semconv.ErrorTypeOther)...)
			span.SetStatus(codes.Error, "no answer")
			span.RecordError(err)
		}
		span.End()
		return resp, err
	}
	if !span.IsRecording() {
		span.End()
		return resp, nil
	}
	resp.Body = &spanBody{ReadCloser: resp.Body, span: span, route: route, status: status, attempt: attempt(r)}
	return resp, nil
}

// attempt is which request this is of those for one call.
func attempt(r *http.Request) attribute.KeyValue {
	return attribute.Int("easel.attempt", catalog.Attempt(r.Context()))
}

// headerOf writes a traceparent.
func headerOf(ids trace.SpanContext) string {
	var text [55]byte
	traceID, spanID := ids.TraceID(), ids.SpanID()
	copy(text[:], "00-")
	hex.Encode(text[3:], traceID[:])
	text[35] = '-'
	hex.Encode(text[36:], spanID[:])
	text[52] = '-'
	hex.Encode(text[53:], []byte{byte(ids.TraceFlags())})
	return string(text[:])
}

// route finds what is the same for all requests of a target.
func (u *upstream) route(r *http.Request) *upstreamRoute {
	key := target{r.Pattern, r.Method, r.URL.Host}
	if route, ok := u.routes.Load(key); ok {
		return route.(*upstreamRoute)
	}
	route := &upstreamRoute{name: spanName(r)}
	route.about = []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(r.Method),
		semconv.URLTemplate(strings.TrimPrefix(r.Pattern, r.Method+" ")),
		semconv.ServerAddress(r.URL.Hostname()),
	}
	kept, _ := u.routes.LoadOrStore(key, route)
	return kept.(*upstreamRoute)
}

// outcome is what a request is measured by; the status is 0 where there was no answer.
func (u *upstreamRoute) outcome(status int) metric.MeasurementOption {
	if option, ok := u.outcomes.Load(status); ok {
		return option.(metric.MeasurementOption)
	}
	all := u.about[:2:2]
	switch {
	case status == 0:
		all = append(all, semconv.ErrorTypeOther)
	case status >= http.StatusBadRequest:
		all = append(all, semconv.ErrorTypeKey.String(strconv.Itoa(status)), semconv.HTTPResponseStatusCode(status))
	default:
		all = append(all, semconv.HTTPResponseStatusCode(status))
	}
	option, _ := u.outcomes.LoadOrStore(status, labelled(all...))
	return option.(metric.MeasurementOption)
}

func spanName(r *http.Request) string {
	if r.Pattern != "" {
		return r.Pattern
	}
	return r.Method
}

// lists are what attributes are gathered in. A span copies them.
var lists = sync.Pool{New: func() any { return new([]attribute.KeyValue) }}

// spanBody ends a span with the body of the answer. What the span says is set at once then:
// each further time would copy what is there.
type spanBody struct {
	io.ReadCloser
	span    trace.Span
	route   *upstreamRoute
	status  int
	attempt attribute.KeyValue
	read    int64
	once    sync.Once
}

// Read implements io.Reader.
func (b *spanBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	switch err {
	case nil:
	case io.EOF:
		b.end()
	default:
		b.span.SetStatus(codes.Error, "the body broke off")
		b.span.RecordError(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *spanBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

func (b *spanBody) end() {
	b.once.Do(func() {
		list := lists.Get().(*[]attribute.KeyValue)
		all := append((*list)[:0], b.route.about...)
		all = append(all, semconv.HTTPResponseStatusCode(b.status), b.attempt, semconv.HTTPResponseBodySize(int(b.read)))
		if b.status >= http.StatusBadRequest {
			all = append(all, semconv.ErrorTypeKey.String(strconv.Itoa(b.status)))
			b.span.SetStatus(codes.Error, "")
		}
		b.span.SetAttributes(all...)
		b.span.End()
		clear(all)
		*list = all
		lists.Put(list)
	})
}
