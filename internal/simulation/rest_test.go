package simulation

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

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

var fromJSON = protojson.UnmarshalOptions{DiscardUnknown: true}

func (d *endpoint) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if d.key != "" {
		r.Header.Set("Authorization", "Bearer "+d.key)
	}
	r.Header.Set("Content-Type", "application/json")
	return d.http.Do(r)
}

// restOrder places an order over REST. Only the caller's knowledge counts: if the request may have
// been sent, the outcome is unknown.
func (d *endpoint) restOrder(ctx context.Context, o order, labels map[string]string) (*easelv1.Generation, error) {
	body, err := protojson.Marshal(&easelv1.CreateGenerationRequest{
		ModelId: o.model, InputsJson: o.inputs, IdempotencyKey: o.key, MaxCostCents: o.limit, Labels: labels,
	})
	if err != nil {
		return nil, err
	}
	resp, err := d.request(ctx, http.MethodPost, "/v1/generations", body)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
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

// restError converts a REST error to its status.
func restError(text []byte) error {
	var st rpcstatus.Status
	if err := fromJSON.Unmarshal(text, &st); err != nil {
		return status.Error(codes.Unknown, "no status: "+string(text))
	}
	return status.FromProto(&st).Err()
}

// restWatch opens a stream of server-sent events.
func (d *endpoint) restWatch(ctx context.Context, v viewing, known string) (messages, error) {
	path := fmt.Sprintf("/v1/generations/%s:watch?heartbeatInterval=%.9fs&until=%s", v.id, v.every.Seconds(), v.until)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return nil, err
	}
	if d.key != "" {
		r.Header.Set("Authorization", "Bearer "+d.key)
	}
	r.Header.Set("Accept", "text/event-stream")
	if known != "" {
		r.Header.Set("Last-Event-ID", known)
	}
	resp, err := d.http.Do(r)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	context.AfterFunc(ctx, func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return nil, restError(text)
	}
	events := bufio.NewReader(resp.Body)
	return func() (*easelv1.WatchGenerationResponse, error) { return nextEvent(events) }, nil
}

// nextEvent reads one event. Only "done" means that the stream ended successfully.
func nextEvent(events *bufio.Reader) (*easelv1.WatchGenerationResponse, error) {
	name, data, id := "", "", ""
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			return nil, status.Error(codes.Unavailable, "the stream of events was cut: "+err.Error())
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case field == "event":
			name = value
		case field == "data":
			data = value
		case field == "id":
			id = value
		case field == "" && name != "":
			return readEvent(name, data, id)
		}
	}
}

func readEvent(name, data, id string) (*easelv1.WatchGenerationResponse, error) {
	switch name {
	case "done":
		return nil, io.EOF
	case "failure":
		return nil, restError([]byte(data))
	}
	var m easelv1.WatchGenerationResponse
	if err := fromJSON.Unmarshal([]byte(data), &m); err != nil {
		return nil, err
	}
	if g := m.GetUpdate().GetGeneration(); g != nil {
		g.Etag = id // a browser sends this ID back
	}
	return &m, nil
}
