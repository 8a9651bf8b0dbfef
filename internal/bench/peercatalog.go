package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// peerCatalog is the catalog client of the peer, the program that Easel is compared with. It uses net/http and encoding/json.
type peerCatalog struct {
	base   string
	client *http.Client
}

const (
	peerTimeout = 10 * time.Second // total timeout of the catalog requests for one call
	peerLongest = 8 << 20          // maximum size of a response in bytes
)

// readGeneration reads a generation from the catalog.
func (c *peerCatalog) readGeneration(ctx context.Context, authorization, id string) (*easelv1.Generation, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	response, err := c.get(ctx, authorization, "/generations/"+url.PathEscape(id))
	if err != nil {
		return nil, err
	}
	return readGeneration(response)
}

// placeOrder requests the price of an order, and places the order if the price is within the order's limit.
func (c *peerCatalog) placeOrder(ctx context.Context, authorization string, r *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"modelId": r.GetModelId(), "inputs": json.RawMessage(r.GetInputsJson())})
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "invalid JSON in the inputs")
	}
	priced, err := c.post(ctx, authorization, "/quote", "", body)
	if err != nil {
		return nil, err
	}
	defer priced.Body.Close()
	var quote struct{ CostCents int64 }
	if err := json.NewDecoder(io.LimitReader(priced.Body, peerLongest)).Decode(&quote); err != nil || quote.CostCents > r.GetMaxCostCents() {
		return nil, status.Error(codes.FailedPrecondition, "the price is above the limit")
	}
	response, err := c.post(ctx, authorization, "/generations", r.GetIdempotencyKey(), body)
	if err != nil {
		return nil, err
	}
	return readGeneration(response)
}

func readGeneration(response *http.Response) (*easelv1.Generation, error) {
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, peerLongest))
	if err != nil {
		return nil, status.Error(codes.Unavailable, "the catalog's answer was cut off")
	}
	g, err := generationOf(body)
	if err != nil {
		return nil, status.Error(codes.Internal, "the catalog's answer cannot be read")
	}
	return g, nil
}

func (c *peerCatalog) get(ctx context.Context, authorization, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "invalid generation ID")
	}
	return c.send(request, authorization)
}

func (c *peerCatalog) post(ctx context.Context, authorization, path, idempotencyKey string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, status.Error(codes.Internal, "the request can't be created")
	}
	request.Header.Set("Content-Type", "application/json")
	if idempotencyKey != "" {
		request.Header.Set("Idempotency-Key", idempotencyKey)
	}
	return c.send(request, authorization)
}

func (c *peerCatalog) send(request *http.Request, authorization string) (*http.Response, error) {
	request.Header.Set("Authorization", authorization)
	response, err := c.client.Do(request)
	if err != nil {
		return nil, status.Error(codes.Unavailable, "the catalog does not answer")
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		response.Body.Close()
		return nil, status.Error(cmp.Or(peerCodes[response.StatusCode], codes.Unavailable), "the catalog answers "+response.Status)
	}
	return response, nil
}

// peerCodes maps the catalog's HTTP statuses to gRPC codes. All other statuses map to Unavailable.
var peerCodes = map[int]codes.Code{
	http.StatusBadRequest: codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied,
	http.StatusNotFound: codes.NotFound, http.StatusGone: codes.NotFound, http.StatusTooManyRequests: codes.ResourceExhausted,
}

// generationOf converts a record from the catalog to the contract's Generation message. Members that have no field in this
// message are copied to upstream_fields.
func generationOf(body []byte) (*easelv1.Generation, error) {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	created, err := time.Parse(time.RFC3339, takeMember[string](fields, "createdAt"))
	if err != nil {
		return nil, err
	}
	inputs, err := structpb.NewStruct(takeMember[map[string]any](fields, "inputs"))
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(body)
	g := &easelv1.Generation{
		GenerationId: takeMember[string](fields, "id"), ModelId: takeMember[string](fields, "modelId"), UpstreamStatus: takeMember[string](fields, "status"),
		Inputs: inputs, CostCents: proto.Int64(int64(takeMember[float64](fields, "costCents"))), CreateTime: timestamppb.New(created),
		ObserveTime: timestamppb.Now(), Etag: hex.EncodeToString(digest[:16]),
	}
	g.State = easelv1.State(easelv1.State_value["STATE_"+strings.ToUpper(g.GetUpstreamStatus())])
	g.Terminal = g.GetState() >= easelv1.State_STATE_SUCCEEDED
	if takeMember[string](fields, "contentUrl") != "" {
		g.Result = &easelv1.Generation_File{File: &easelv1.FileResult{
			ContentType: takeMember[string](fields, "contentType"), SizeBytes: proto.Int64(int64(takeMember[float64](fields, "sizeBytes"))),
		}}
	}
	g.UpstreamFields, err = structpb.NewStruct(fields)
	return g, err
}

// takeMember removes a member from fields, and returns its value. If the value is missing or does not have the type T,
// takeMember returns the zero value of T.
func takeMember[T any](fields map[string]any, name string) T {
	value, _ := fields[name].(T)
	delete(fields, name)
	return value
}
