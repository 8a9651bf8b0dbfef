package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// firstMessageWait is how long an event stream delays its headers for the first message. An error
// within this time is answered with its HTTP code, which ends an EventSource for good and fails curl -f;
// later the client gets the headers of an open watch. The first answer about an unknown generation comes
// from the catalog, mostly within this time; a person does not notice the delay.
const firstMessageWait = 500 * time.Millisecond

// eventStreams serve watches as streams of events.
type eventStreams struct {
	mux      *runtime.ServeMux
	accounts easelv1.AccountServiceClient
	client   easelv1.GenerationServiceClient
}

// watchGeneration serves the watch of one generation as a stream of events.
//
// A browser's EventSource connects again whenever a stream ends, to the same URL: a page
// closes it at the events "done" (the watch is complete) and "failure" (a status says why not).
// Last-Event-ID is the etag that the browser has by then. It is newer than the knownEtag of the URL,
// and so it wins.
func (s eventStreams) watchGeneration(w http.ResponseWriter, r *http.Request, params map[string]string) {
	req := &easelv1.WatchGenerationRequest{GenerationId: params["generation_id"]}
	follow(s.mux, w, r, watchPath, easelv1.GenerationService_WatchGeneration_FullMethodName,
		func(ctx context.Context) (grpc.ServerStreamingClient[easelv1.WatchGenerationResponse], error) {
			if err := query(r, req, "generation_id"); err != nil {
				return nil, err
			}
			if last := r.Header.Get("Last-Event-ID"); last != "" && utf8.ValidString(last) {
				req.KnownEtag = last
			}
			return s.client.WatchGeneration(ctx, req)
		})
}

// watchGenerations serves the watch of many generations as a stream of events, which ends like the watch
// of one. A POST has the request as its body, as a query with many etags is too long for a URL. A stream of many
// gives no event ids, so an EventSource that connects again gets every state again.
func (s eventStreams) watchGenerations(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	req := &easelv1.WatchGenerationsRequest{}
	follow(s.mux, w, r, watchAllPath, easelv1.GenerationService_WatchGenerations_FullMethodName,
		func(ctx context.Context) (grpc.ServerStreamingClient[easelv1.WatchGenerationsResponse], error) {
			read := func() error { return query(r, req) }
			if r.Method == http.MethodPost {
				read = func() error {
					defer func() { r.Body = http.NoBody }() // it is large, and the stream may last
					return decodeBody(r, req)
				}
			}
			if err := read(); err != nil {
				return nil, err
			}
			return s.client.WatchGenerations(ctx, req)
		})
}

// watchAccount serves the watch of the account as a stream of events. It has no end but a failure.
func (s eventStreams) watchAccount(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	req := &easelv1.WatchAccountRequest{}
	follow(s.mux, w, r, watchAccountPath, easelv1.AccountService_WatchAccount_FullMethodName,
		func(ctx context.Context) (grpc.ServerStreamingClient[easelv1.WatchAccountResponse], error) {
			if err := query(r, req); err != nil {
				return nil, err
			}
			return s.accounts.WatchAccount(ctx, req)
		})
}

// follow makes a streaming call and writes each message as an event, until the call
// or the client ends. A client that goes away ends the call.
func follow[M any](mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request, path, method string,
	open func(context.Context) (grpc.ServerStreamingClient[M], error),
) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ctx, err := annotate(ctx, mux, r, method, path)
	if err != nil {
		refuse(w, r, err)
		return
	}
	stream, err := open(ctx)
	if err != nil {
		refuse(w, r, err)
		return
	}
	events := newEventWriter(w, r)
	message, err := firstMessage(stream, events)
	if err != nil && !errors.Is(err, io.EOF) && !events.opened {
		refuse(w, r, err)
		return
	}
	for ; err == nil; message, err = stream.Recv() {
		if events.message(ctx, any(message).(proto.Message)) != nil {
			return // nobody reads any more
		}
	}
	events.end(err)
}

// firstMessage waits for the first message, and opens the stream of events if that
// takes long.
func firstMessage[M any](stream grpc.ServerStreamingClient[M], events *eventWriter) (*M, error) {
	opened := make(chan struct{})
	late := time.AfterFunc(firstMessageWait, func() {
		_ = events.start() // a failed write shows again at the first message; the call ends then
		close(opened)
	})
	message, err := stream.Recv()
	if !late.Stop() {
		<-opened
	}
	return message, err
}
