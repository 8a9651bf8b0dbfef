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

// firstMessageWait is how long an event stream keeps its headers back for the first
// message. An error that comes in time gets the HTTP code that it deserves, which ends
// an EventSource for good and fails curl -f; after that the client hears that its watch
// stands. The first answer about a generation that is not known yet is one of the catalog's,
// and most of those come within this; a person takes it for at once.
const firstMessageWait = 500 * time.Millisecond

// eventStreams serve watches as streams of events.
type eventStreams struct {
	mux    *runtime.ServeMux
	client easelv1.GenerationServiceClient
}

// watchGeneration serves the watch of one generation as a stream of events.
//
// A browser's EventSource connects again whenever a stream ends, to the same URL: a page
// closes it at the events "done" (all was told) and "failure" (a status says why not).
// What the browser has by then is in Last-Event-ID, which is newer than a knownEtag that
// has stood in the URL from the beginning, and so it wins.
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

// watchGenerations serves the watch of many generations as a stream of events. It ends as
// the watch of one does.
func (s eventStreams) watchGenerations(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	req := &easelv1.WatchGenerationsRequest{}
	follow(s.mux, w, r, watchAllPath, easelv1.GenerationService_WatchGenerations_FullMethodName,
		func(ctx context.Context) (grpc.ServerStreamingClient[easelv1.WatchGenerationsResponse], error) {
			if err := query(r, req); err != nil {
				return nil, err
			}
			return s.client.WatchGenerations(ctx, req)
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
		if events.message(any(message).(proto.Message)) != nil {
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
