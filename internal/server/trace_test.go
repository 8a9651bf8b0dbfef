package server_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestOrderHasOneTraceFromCallerToCatalog(t *testing.T) {
	for form, want := range map[string][]string{
		"gRPC": {"POST /generations", "easel.v1.GenerationService/CreateGeneration"},
		"REST": {"POST /generations", "easel.v1.GenerationService/CreateGeneration", "POST /v1/generations"},
	} {
		t.Run(form, func(t *testing.T) {
			spans := servertest.RecordSpans(t)
			s := newStack(t)
			s.sandbox.Inject(sandbox.Fault{Route: "GET /me", Status: 503, Count: 1})
			// This call verifies the API key, so that later calls do not have to.
			if err := (grpcCaller{s, s.key}).call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{}); err != nil {
				t.Fatal(err)
			}
			attempts := spansNamed(spans, "GET /me")
			if len(attempts) != 2 {
				t.Fatalf("got %d attempts, want 2", len(attempts))
			}
			for i, code := range []int64{503, 200} {
				if n, got := attributeOf(attempts[i], "http.request.resend_count").AsInt64(), attributeOf(attempts[i], "http.response.status_code").AsInt64(); n != int64(i) || got != code {
					t.Errorf("attempt %d has the resend count %d and the status %d", i+1, n, got)
				}
			}
			const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			if form == "gRPC" {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent)
				resp := &easelv1.CreateGenerationResponse{}
				if err := (grpcCaller{s, s.key}).call(ctx, "GenerationService/CreateGeneration", order(t, text, "k", "a lake"), resp); err != nil {
					t.Fatal(err)
				}
			} else {
				own := *s
				own.http = &http.Client{Transport: withHeader{s.http.Transport, "traceparent", parent}}
				create(t, restCaller{&own, s.key}, order(t, text, "k", "a lake"))
			}
			chain := chainOf(t, spans, "POST /generations", parent[3:35], len(want)-1)
			if strings.Join(chain, " < ") != strings.Join(want, " < ") {
				t.Errorf("the trace is %s, want %s", strings.Join(chain, " < "), strings.Join(want, " < "))
			}
			holdNoSecret(t, spans, s.key)
		})
	}
}

func TestErrorsIncludeTheirTraceID(t *testing.T) {
	spans := servertest.RecordSpans(t)
	s := newStack(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	own := *s
	own.http = &http.Client{Transport: withHeader{s.http.Transport, "traceparent", parent}}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent)
	for name, call := range map[string]func(key string) caller{
		"gRPC": func(key string) caller { return grpcCaller{s, key} },
		"REST": func(key string) caller { return restCaller{&own, key} },
	} {
		for what, err := range map[string]error{
			"rejected by the catalog": call(s.key).call(ctx, "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: "none"}, &easelv1.GetGenerationResponse{}),
			"rejected by validation":  call(s.key).call(ctx, "GenerationService/CreateGeneration", &easelv1.CreateGenerationRequest{ModelId: text}, &easelv1.CreateGenerationResponse{}),
		} {
			if info, _ := detailOf[*errdetails.RequestInfo](t, statusOf(t, err)); info.GetRequestId() != parent[3:35] {
				t.Errorf("%s, %s: the request ID is %q (%v)", name, what, info.GetRequestId(), err)
			}
			var rest *restFailure
			if errors.As(err, &rest) && !strings.HasPrefix(rest.header.Get("Traceparent"), parent[:35]) {
				t.Errorf("%s, %s: the response's Traceparent header is %q", name, what, rest.header.Get("Traceparent"))
			}
		}
	}
	if err := (grpcCaller{s, "no-such-key"}).watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: "gen_1"}, func(*easelv1.WatchGenerationResponse) {}); err == nil {
		t.Fatal("the watch was not rejected")
	}
	const name = "easel.v1.GenerationService/WatchGeneration"
	eventually(t, "the span of the watch has ended", func() bool { return len(spansNamed(spans, name)) > 0 })
	span := spansNamed(spans, name)[0]
	if got := attributeOf(span, "rpc.response.status_code").AsString(); got != "UNAUTHENTICATED" || attributeOf(span, "easel.stream.reason").AsString() != "credential_rejected" {
		t.Errorf("the span of the rejected watch has the attributes %v", span.Attributes)
	}
}

// chainOf returns the name of a span and the names of its ancestors, up to the caller's span. It first waits
// until at least the given number of server spans in the trace have ended, because a server span ends only
// after the response was sent.
func chainOf(t *testing.T, spans *tracetest.InMemoryExporter, name, traceID string, servers int) (names []string) {
	t.Helper()
	var all tracetest.SpanStubs
	eventually(t, "the spans of the call have ended", func() bool {
		all = spans.GetSpans()
		ended := 0
		for _, span := range all {
			if span.SpanContext.TraceID().String() == traceID && span.SpanKind == trace.SpanKindServer {
				ended++
			}
		}
		return ended >= servers
	})
	byID := map[trace.SpanID]tracetest.SpanStub{}
	var at tracetest.SpanStub
	for _, span := range all {
		byID[span.SpanContext.SpanID()] = span
		if span.Name == name {
			at = span
		}
	}
	for ; at.SpanContext.IsValid(); at = byID[at.Parent.SpanID()] {
		if at.SpanContext.TraceID().String() != traceID {
			t.Errorf("%s belongs to another trace", at.Name)
		}
		if at.SpanKind != trace.SpanKindInternal && (len(names) == 0 || names[len(names)-1] != at.Name) {
			names = append(names, at.Name)
		}
	}
	return names
}

func holdNoSecret(t *testing.T, spans *tracetest.InMemoryExporter, key string) {
	t.Helper()
	for _, span := range spans.GetSpans() {
		for _, attribute := range span.Attributes {
			if strings.Contains(attribute.Value.String(), key) {
				t.Errorf("the key is in %s of %s", attribute.Key, span.Name)
			}
		}
		if strings.Contains(span.Name, "gen_") {
			t.Errorf("an ID is in the span name %s", span.Name)
		}
	}
}

// spansNamed returns the ended spans with the given name, in the order in which they ended.
func spansNamed(exporter *tracetest.InMemoryExporter, name string) (found tracetest.SpanStubs) {
	for _, span := range exporter.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

func attributeOf(span tracetest.SpanStub, key attribute.Key) attribute.Value {
	for _, kv := range span.Attributes {
		if kv.Key == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

// In virtual time, the watch is certain to start before the render ends.
func TestSpanOfWatchUpdateLinksToSpanOfPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := servertest.RecordSpans(t)
		s := newStack(t, func(o *options) { o.memory = true })
		c := grpcCaller{s, s.key}
		g := create(t, c, order(t, picture, "k", "a lake"))
		collectUpdates(t, c, &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()})
		const service = "easel.v1.GenerationService/"
		synctest.Wait() // waits until the spans of the watch and of the poll have ended
		byID := map[trace.SpanID]tracetest.SpanStub{}
		for _, span := range spans.GetSpans() {
			byID[span.SpanContext.SpanID()] = span
		}
		linked := func(span tracetest.SpanStub, as string) tracetest.SpanStub {
			for _, link := range span.Links {
				if slices.Contains(link.Attributes, attribute.String("easel.link", as)) {
					return byID[link.SpanContext.SpanID()]
				}
			}
			return tracetest.SpanStub{}
		}
		pushes := spansNamed(spans, "push")
		last := pushes[len(pushes)-1]
		poll := linked(last, "found_by")
		if len(pushes) < 2 || byID[last.Parent.SpanID()].Name != service+"WatchGeneration" || poll.Name != "poll" || poll.Parent.IsValid() {
			t.Fatalf("the last of %d pushes links to %q", len(pushes), poll.Name)
		}
		if from, to := linked(poll, "order"), linked(poll, "watch"); from.Name != service+"CreateGeneration" || to.SpanContext.SpanID() != last.Parent.SpanID() {
			t.Errorf("the poll links to the order %q and the watch %q", from.Name, to.Name)
		}
		if !slices.ContainsFunc(spansNamed(spans, "GET /generations/{id}"), func(get tracetest.SpanStub) bool { return get.Parent.SpanID() == poll.SpanContext.SpanID() }) {
			t.Error("the poll has sent no request")
		}
		if got := attributeOf(last, "easel.generation.state").AsString(); got != "succeeded" {
			t.Errorf("the last push has the state %q", got)
		}
	})
}
