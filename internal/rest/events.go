package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// firstMessageWait is the maximum time for which an event stream waits for its first message before it sends the headers. If
// the call fails within this time, the response can still have an HTTP error status. Such a status makes curl -f fail, and
// stops an EventSource from reconnecting.
const firstMessageWait = 500 * time.Millisecond

// eventStreams serves watches as streams of server-sent events or JSON lines.
type eventStreams struct {
	mux    *runtime.ServeMux
	client easelv1.GenerationServiceClient
}

// watchGeneration serves the watch of one generation as a stream of events.
//
// When a stream ends, a browser's EventSource reconnects to the same URL, and sends the etag of the last update as
// Last-Event-ID. This etag replaces the URL's knownEtag, because it is newer.
func (s eventStreams) watchGeneration(w http.ResponseWriter, r *http.Request, params map[string]string) {
	req := &easelv1.WatchGenerationRequest{GenerationId: params["generation_id"]}
	follow(s.mux, w, r, watchPath, easelv1.GenerationService_WatchGeneration_FullMethodName,
		func(ctx context.Context) (grpc.ServerStreamingClient[easelv1.WatchGenerationResponse], error) {
			if err := decodeQuery(r, req, "generation_id"); err != nil {
				return nil, err
			}
			if last := r.Header.Get("Last-Event-ID"); last != "" && utf8.ValidString(last) {
				req.KnownEtag = last
			}
			return s.client.WatchGeneration(ctx, req)
		})
}

// watchGenerations serves the watch of many generations as a stream of events. The request can be the body of a POST, because
// many etags do not fit into a URL. The events have no IDs. After a reconnect, an EventSource therefore receives every state
// again.
func (s eventStreams) watchGenerations(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	req := &easelv1.WatchGenerationsRequest{}
	follow(s.mux, w, r, watchAllPath, easelv1.GenerationService_WatchGenerations_FullMethodName,
		func(ctx context.Context) (grpc.ServerStreamingClient[easelv1.WatchGenerationsResponse], error) {
			read := func() error { return decodeQuery(r, req) }
			if r.Method == http.MethodPost {
				read = func() error {
					defer func() { r.Body = http.NoBody }() // releases the request body, which can be large, before the stream starts
					return decodeBody(r, req)
				}
			}
			if err := read(); err != nil {
				return nil, err
			}
			return s.client.WatchGenerations(ctx, req)
		})
}

// watchEvents serves the recorded events of the caller's owner as a stream of server-sent events or JSON lines. The ID of each
// server-sent event is its resume_token, so that an EventSource that reconnects continues after the last event.
func (s eventStreams) watchEvents(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	req := &easelv1.WatchEventsRequest{}
	follow(s.mux, w, r, eventsPath, easelv1.GenerationService_WatchEvents_FullMethodName,
		func(ctx context.Context) (grpc.ServerStreamingClient[easelv1.WatchEventsResponse], error) {
			if err := decodeQuery(r, req); err != nil {
				return nil, err
			}
			if last := r.Header.Get("Last-Event-ID"); last != "" && utf8.ValidString(last) {
				req.ResumeToken = last
			}
			return s.client.WatchEvents(ctx, req)
		})
}

// follow calls a streaming method and writes each message as an event, until the call ends or the client disconnects. A
// disconnect cancels the call.
func follow[M any](mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request, path, method string,
	open func(context.Context) (grpc.ServerStreamingClient[M], error),
) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ctx, err := annotate(ctx, mux, r, method, path)
	if err != nil {
		writeRefusal(w, r, err)
		return
	}
	stream, err := open(ctx)
	if err != nil {
		writeRefusal(w, r, err)
		return
	}
	events := newEventWriter(w, r)
	message, err := firstMessage(stream, events)
	if err != nil && !errors.Is(err, io.EOF) && !events.opened {
		writeRefusal(w, r, err)
		return
	}
	for ; err == nil; message, err = stream.Recv() {
		if err = events.writeMessage(any(message).(proto.Message)); err != nil {
			break // the client has disconnected or is too slow, so the stream must not end like a complete one
		}
	}
	events.writeEnd(err)
}

// firstMessage waits for the first message. If no message arrives within firstMessageWait, it sends the headers of the event
// stream and continues to wait.
func firstMessage[M any](stream grpc.ServerStreamingClient[M], events *eventWriter) (*M, error) {
	opened := make(chan struct{})
	late := time.AfterFunc(firstMessageWait, func() {
		_ = events.sendHeaders() // if this fails, writing the first message fails too, and the call ends
		close(opened)
	})
	message, err := stream.Recv()
	if !late.Stop() {
		<-opened
	}
	return message, err
}

// reconnectDelay is the time that an EventSource waits before it reconnects, unless a message specifies another delay.
const reconnectDelay = 2 * time.Second

// eventWriter writes the messages of a stream as server-sent events or as JSON lines.
//
//	format             message              error                     end with OK
//	text/event-stream  event: <its kind>    event: failure            event: done
//	NDJSON             the message          {"error": <status>}       nothing
//
// A browser's EventSource reconnects whenever a stream ends, unless the page has closed it. A page should close it at "done"
// and at "failure". The event for an error is not named "error", because EventSource itself sends an event with this name when
// it loses the connection.
type eventWriter struct {
	w      http.ResponseWriter
	flush  func() error
	sse    bool // whether to write server-sent events instead of JSON lines
	opened bool // whether the headers were sent
}

func newEventWriter(w http.ResponseWriter, r *http.Request) *eventWriter {
	return &eventWriter{w: w, flush: http.NewResponseController(w).Flush, sse: acceptsType(r, "text/event-stream")}
}

// acceptsType reports whether the Accept header of a request contains the given media type. Wildcards such as */* are ignored.
func acceptsType(r *http.Request, want string) bool {
	for _, value := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			if media, _, err := mime.ParseMediaType(part); err == nil && media == want {
				return true
			}
		}
	}
	return false
}

// sendHeaders sends the headers. For server-sent events, it also sends a comment and the reconnect delay, so that proxies and
// browsers do not wait for the first bytes of the body.
func (e *eventWriter) sendHeaders() error {
	e.opened = true
	header := e.w.Header()
	header.Set("Content-Type", "application/x-ndjson")
	if e.sse {
		header.Set("Content-Type", "text/event-stream")
	}
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // keeps nginx from buffering the events
	e.w.WriteHeader(http.StatusOK)
	if e.sse {
		return e.write(fmt.Appendf(nil, ": easel\nretry: %d\n\n", reconnectDelay.Milliseconds()))
	}
	return e.flush()
}

// writeMessage writes a message to the stream. If the headers were not sent yet, it sends them first.
func (e *eventWriter) writeMessage(m proto.Message) error {
	if !e.opened {
		if err := e.sendHeaders(); err != nil {
			return err
		}
	}
	body, err := jsonOut.Marshal(m)
	if err != nil {
		return err
	}
	if !e.sse {
		return e.write(append(body, '\n'))
	}
	var event bytes.Buffer
	if etag := eventID(m); etag != "" {
		fmt.Fprintf(&event, "id: %s\n", etag)
	}
	if delay, ok := closingDelay(m); ok {
		fmt.Fprintf(&event, "retry: %d\n", delay.Milliseconds())
	}
	fmt.Fprintf(&event, "event: %s\ndata: %s\n\n", eventName(m), body)
	return e.write(event.Bytes())
}

// writeEnd writes the end of the stream. err is io.EOF if the call ended with OK. If the client has disconnected, nothing is
// written.
func (e *eventWriter) writeEnd(err error) {
	if !e.opened {
		_ = e.sendHeaders()
	}
	switch ok := errors.Is(err, io.EOF); {
	case ok && e.sse:
		_ = e.write([]byte("event: done\ndata: {}\n\n"))
	case ok:
	case e.sse:
		_ = e.write(fmt.Appendf(nil, "event: failure\ndata: %s\n\n", statusJSON(service.Status(err))))
	default:
		_ = e.write(fmt.Appendf(nil, "{\"error\":%s}\n", statusJSON(service.Status(err))))
	}
}

func (e *eventWriter) write(p []byte) error {
	if _, err := e.w.Write(p); err != nil {
		return err
	}
	return e.flush()
}

// eventName returns the kind of a message: the JSON name of the field that is set in the message's only oneof.
func eventName(m proto.Message) string {
	message := m.ProtoReflect()
	if kinds := message.Descriptor().Oneofs(); kinds.Len() > 0 {
		if field := message.WhichOneof(kinds.Get(0)); field != nil {
			return field.JSONName()
		}
	}
	return "message" // a kind of message that this version of the program does not know
}

// eventID returns the ID of the event for a message, which a client sends as Last-Event-ID when it reconnects. For
// WatchGeneration, it is the etag of an update. For WatchEvents, it is the resume token. The messages of WatchGenerations have
// no IDs.
func eventID(m proto.Message) string {
	id := ""
	switch one := m.(type) {
	case *easelv1.WatchGenerationResponse:
		id = one.GetUpdate().GetGeneration().GetEtag()
	case *easelv1.WatchEventsResponse:
		id = one.GetResumeToken()
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return -1 // removed, because a line break would end the ID
		}
		return c
	}, id)
}

// closingDelay returns the delay in a message that announces the end of the stream. A client should wait that long before it
// reconnects. If the message contains no such delay, closingDelay returns false.
func closingDelay(m proto.Message) (time.Duration, bool) {
	closing, ok := m.(interface{ GetClosing() *easelv1.StreamClosing })
	if !ok || closing.GetClosing().GetRetryDelay() == nil {
		return 0, false
	}
	return closing.GetClosing().GetRetryDelay().AsDuration(), true
}
