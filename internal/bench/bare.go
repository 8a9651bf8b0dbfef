package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	_ "net/http/pprof" // the admin listener of the bare facade
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// bareFacade is the yardstick: grpc-go in front, net/http behind, JSON between, nothing else.
// It has no tracing, no validation, no error details, no limits and no budget.
type bareFacade struct {
	easelv1.UnimplementedGenerationServiceServer
	upstream string
	every    time.Duration // between two polls of a render
	alone    bool          // each watcher polls for itself
	client   *http.Client

	mu    sync.Mutex
	polls map[string]*barePoll
}

// barePoll is one render that is polled for all its watchers, each of which has a channel.
type barePoll struct {
	newest   *easelv1.Generation
	watchers map[chan *easelv1.Generation]bool
	stop     context.CancelFunc
}

// bareRecord is what the bare facade reads of a render.
type bareRecord struct {
	ID         string          `json:"id"`
	ModelID    string          `json:"modelId"`
	Status     string          `json:"status"`
	CostCents  int64           `json:"costCents"`
	CreatedAt  time.Time       `json:"createdAt"`
	Inputs     json.RawMessage `json:"inputs"`
	ContentURL string          `json:"contentUrl"`
	Size       int64           `json:"sizeBytes"`
	Text       string          `json:"textOutput"`
	Progress   float64         `json:"progress"`
}

func (f *bareFacade) request(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.upstream+path, nil)
	if err != nil {
		return nil, err
	}
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) > 0 {
		request.Header.Set("Authorization", values[0])
	}
	response, err := f.client.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		response.Body.Close()
		err = status.Error(codes.NotFound, response.Status)
	}
	return response, err
}

func (f *bareFacade) read(ctx context.Context, id string) (*easelv1.Generation, error) {
	response, err := f.request(ctx, "/generations/"+id)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var r bareRecord
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	return r.generation()
}

func (r *bareRecord) generation() (*easelv1.Generation, error) {
	inputs := &structpb.Struct{}
	if err := inputs.UnmarshalJSON(r.Inputs); err != nil {
		return nil, err
	}
	g := &easelv1.Generation{
		GenerationId: r.ID, ModelId: r.ModelID, State: easelv1.State_STATE_QUEUED, UpstreamStatus: r.Status, Inputs: inputs,
		CostCents: proto.Int64(r.CostCents), CreateTime: timestamppb.New(r.CreatedAt), ObserveTime: timestamppb.Now(),
		UpstreamFields: &structpb.Struct{Fields: map[string]*structpb.Value{"progress": structpb.NewNumberValue(r.Progress)}},
	}
	if r.Status == "succeeded" {
		g.State, g.Terminal = easelv1.State_STATE_SUCCEEDED, true
		if r.ContentURL != "" {
			g.Result = &easelv1.Generation_File{File: &easelv1.FileResult{SizeBytes: proto.Int64(r.Size)}}
		} else {
			g.Result = &easelv1.Generation_Text{Text: &easelv1.TextResult{Text: r.Text}}
		}
	}
	return g, nil
}

// GetGeneration reads a render.
func (f *bareFacade) GetGeneration(ctx context.Context, request *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
	g, err := f.read(ctx, request.GetGenerationId())
	if err != nil {
		return nil, err
	}
	return &easelv1.GetGenerationResponse{Generation: g}, nil
}

// WatchGeneration sends what its channel brings, until the render has ended.
func (f *bareFacade) WatchGeneration(request *easelv1.WatchGenerationRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
	updates := make(chan *easelv1.Generation, 8)
	leave := f.join(stream.Context(), request.GetGenerationId(), updates)
	defer leave()
	for {
		select {
		case g := <-updates:
			err := stream.Send(&easelv1.WatchGenerationResponse{
				Event:    &easelv1.WatchGenerationResponse_Update{Update: &easelv1.GenerationUpdate{Generation: g}},
				EmitTime: timestamppb.Now(),
			})
			if err != nil || g.GetTerminal() {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// join adds a watcher to the poll of a render, or begins one for it.
func (f *bareFacade) join(ctx context.Context, id string, updates chan *easelv1.Generation) (leave func()) {
	key := id
	if f.alone {
		key = fmt.Sprintf("%s %p", id, updates)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.polls[key]
	if p == nil {
		p = &barePoll{watchers: map[chan *easelv1.Generation]bool{}}
		f.polls[key] = p
		var polling context.Context
		polling, p.stop = context.WithCancel(context.WithoutCancel(ctx))
		go f.poll(polling, id, p)
	}
	p.watchers[updates] = true
	if p.newest != nil {
		updates <- p.newest
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if delete(p.watchers, updates); len(p.watchers) == 0 {
			p.stop()
			delete(f.polls, key)
		}
	}
}

// poll asks at a fixed interval and tells every watcher what has changed.
func (f *bareFacade) poll(ctx context.Context, id string, p *barePoll) {
	ticker := time.NewTicker(f.every)
	defer ticker.Stop()
	for {
		if g, err := f.read(ctx, id); err == nil {
			f.tell(p, g)
			if g.GetTerminal() {
				return
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *bareFacade) tell(p *barePoll, g *easelv1.Generation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.newest != nil && p.newest.GetState() == g.GetState() &&
		proto.Equal(p.newest.GetUpstreamFields(), g.GetUpstreamFields()) {
		return
	}
	p.newest = g
	for watcher := range p.watchers {
		select {
		case watcher <- g:
		default: // it has eight to read
		}
	}
}

// bareChunk is the size of the pieces that results are sent in.
const bareChunk = 64 << 10

// DownloadGeneration copies the result, a piece at a time.
func (f *bareFacade) DownloadGeneration(request *easelv1.DownloadGenerationRequest, stream grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error {
	response, err := f.request(stream.Context(), "/generations/"+request.GetGenerationId()+"/content")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for offset := int64(0); ; {
		data := make([]byte, bareChunk)
		n, err := io.ReadFull(response.Body, data)
		if n > 0 {
			if err := stream.Send(&easelv1.DownloadGenerationResponse{Chunk: &easelv1.ContentChunk{Offset: offset, Data: data[:n]}}); err != nil {
				return err
			}
			offset += int64(n)
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// passThrough is the plain proxy that downloads are compared with.
func (f *bareFacade) passThrough(w http.ResponseWriter, r *http.Request) {
	response, err := f.request(r.Context(), "/generations/"+r.PathValue("id")+"/content")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.Header().Set("Content-Length", response.Header.Get("Content-Length"))
	_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{response.Body}, make([]byte, 256<<10))
}

// throughGateway sends a result as the stock gateway does: a stream of google.api.HttpBody
// over gRPC behind it.
func (f *bareFacade) throughGateway(client easelv1.GenerationServiceClient) http.HandlerFunc {
	mux := runtime.NewServeMux()
	_, marshaler := runtime.MarshalerForRequest(mux, &http.Request{})
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := runtime.NewServerMetadataContext(r.Context(), runtime.ServerMetadata{})
		stream, err := client.DownloadGeneration(ctx, &easelv1.DownloadGenerationRequest{GenerationId: r.PathValue("id")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		runtime.ForwardResponseStream(ctx, mux, marshaler, w, r, func() (proto.Message, error) {
			m, err := stream.Recv()
			if err != nil {
				return nil, err
			}
			return &httpbody.HttpBody{ContentType: "image/png", Data: m.GetChunk().GetData()}, nil
		})
	}
}

// runBare serves the bare facade until its standard input is closed.
func runBare(upstream string, every time.Duration, alone bool) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	facade := &bareFacade{
		upstream: upstream, every: every, alone: alone,
		client: &http.Client{Transport: transport}, polls: map[string]*barePoll{},
	}
	l, err := listen("grpc")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	easelv1.RegisterGenerationServiceServer(server, facade)
	go func() { _ = server.Serve(l) }()

	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/generations/{id}/content", facade.throughGateway(easelv1.NewGenerationServiceClient(conn)))
	mux.HandleFunc("GET /proxy/{id}", facade.passThrough)
	if err := serveHTTP("http", mux); err != nil {
		return err
	}
	if err := serveHTTP("admin", http.DefaultServeMux); err != nil {
		return err
	}
	return untilClosed()
}
