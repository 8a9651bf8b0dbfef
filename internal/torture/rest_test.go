//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// restClient orders over REST, with the idempotency key in the Idempotency-Key header.
type restClient struct {
	transport      http.Transport
	address, token string
}

// Close implements io.Closer.
func (c *restClient) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// create sends an order. A transport failure has the same code as in gRPC.
func (c *restClient) create(ctx context.Context, request *easelv1.CreateGenerationRequest) (string, error) {
	keyless := proto.CloneOf(request)
	keyless.IdempotencyKey = ""
	body, err := protojson.Marshal(keyless)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/v1/generations", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", request.GetIdempotencyKey())
	answer, err := c.transport.RoundTrip(r)
	if err != nil {
		return "", status.Error(codes.Unavailable, err.Error())
	}
	defer answer.Body.Close()
	var told struct {
		Generation struct{ GenerationID string }
		Details    []struct {
			Reason   string
			Metadata map[string]string
		}
	}
	err = json.NewDecoder(answer.Body).Decode(&told)
	switch answer.StatusCode {
	case http.StatusOK:
		if err != nil {
			return "", status.Error(codes.Unavailable, err.Error())
		}
		return told.Generation.GenerationID, nil
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "", status.Error(codes.Unavailable, answer.Status)
	case http.StatusPaymentRequired, http.StatusTooManyRequests:
		st := status.New(codes.ResourceExhausted, answer.Status)
		for _, detail := range told.Details {
			if with, err := st.WithDetails(&errdetails.ErrorInfo{Reason: detail.Reason, Metadata: detail.Metadata}); err == nil && detail.Reason != "" {
				st = with
			}
		}
		return "", st.Err()
	}
	return "", status.Error(codes.Internal, answer.Status)
}
