package promises

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// REST is a client for the REST API at an address. It sends no credential if Token is empty. It returns errors with
// gRPC codes.
type REST struct {
	Client         *http.Client
	Address, Token string
}

var fromJSON = protojson.UnmarshalOptions{DiscardUnknown: true}

func (c REST) send(ctx context.Context, method, path string, body []byte, header map[string]string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := c.Client.Do(r)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return resp, nil
}

// Create sends an order, with the idempotency key in a header.
func (c REST) Create(ctx context.Context, request *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
	keyless := proto.CloneOf(request)
	keyless.IdempotencyKey = ""
	body, err := protojson.Marshal(keyless)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, http.MethodPost, "/v1/generations", body, map[string]string{"Idempotency-Key": request.GetIdempotencyKey()})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if resp.StatusCode != http.StatusOK {
		return nil, restError(text)
	}
	var answer easelv1.CreateGenerationResponse
	err = fromJSON.Unmarshal(text, &answer)
	return answer.GetGeneration(), err
}

// restError converts the body of a REST error to a gRPC status error.
func restError(text []byte) error {
	var st rpcstatus.Status
	if err := fromJSON.Unmarshal(text, &st); err != nil {
		return status.Error(codes.Unknown, "error response without a status: "+string(text))
	}
	return status.FromProto(&st).Err()
}

// Watch opens a stream of server-sent events, and returns a function that receives the next message.
func (c REST) Watch(ctx context.Context, request *easelv1.WatchGenerationRequest) (func() (*easelv1.WatchGenerationResponse, error), error) {
	path := fmt.Sprintf("/v1/generations/%s:watch?heartbeatInterval=%.9fs&until=%s", request.GetGenerationId(), request.GetHeartbeatInterval().AsDuration().Seconds(), request.GetUntil())
	header := map[string]string{"Accept": "text/event-stream"}
	if known := request.GetKnownEtag(); known != "" {
		header["Last-Event-ID"] = known
	}
	resp, err := c.send(ctx, http.MethodGet, path, nil, header)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return nil, restError(text)
	}
	events := bufio.NewReader(resp.Body)
	return func() (*easelv1.WatchGenerationResponse, error) { return nextEvent(events) }, nil
}

// nextEvent reads the next event. It returns [io.EOF] only after a "done" event, which means that the stream ended
// successfully.
func nextEvent(events *bufio.Reader) (*easelv1.WatchGenerationResponse, error) {
	event := map[string]string{}
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			return nil, status.Error(codes.Unavailable, "event stream interrupted: "+err.Error())
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		event[field] = value
		if field != "" || event["event"] == "" {
			continue
		}
		switch event["event"] {
		case "done":
			return nil, io.EOF
		case "failure":
			return nil, restError([]byte(event["data"]))
		}
		var m easelv1.WatchGenerationResponse
		if err := fromJSON.Unmarshal([]byte(event["data"]), &m); err != nil {
			return nil, err
		}
		if g := m.GetUpdate().GetGeneration(); g != nil {
			g.Etag = event["id"] // the ID of an event is the etag; a browser returns it in Last-Event-ID
		}
		return &m, nil
	}
}
