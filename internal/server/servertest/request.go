package servertest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/easel-grpc/easel/internal/service"
)

// Request returns a request with the API key "key" and the given headers. Each header has the form "Name: value". A header
// with an empty value is not sent: for example, "Authorization: " removes the API key.
func Request(t *testing.T, method, path, body string, headers ...string) *http.Request {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://easel.test"+path, content)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
		if value == "" {
			r.Header.Del(name)
		}
	}
	return r
}

// Do sends a request, and returns the response and its complete body.
func Do(t *testing.T, client *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// RESTStatus parses the status in a REST error's body.
func RESTStatus(t *testing.T, body string) *status.Status {
	t.Helper()
	var message rpcstatus.Status
	if err := protojson.Unmarshal([]byte(body), &message); err != nil {
		t.Fatalf("%s is not a status: %v", body, err)
	}
	return status.FromProto(&message)
}

// WantError fails the test unless the error has the code, the reason and Easel's domain. It returns the error's status.
func WantError(t *testing.T, err error, code codes.Code, reason string) *status.Status {
	t.Helper()
	st := status.Convert(err)
	info := service.Detail[*errdetails.ErrorInfo](st)
	if st.Code() != code || info.GetReason() != reason {
		t.Fatalf("got %v with reason %q, want %v with %q", err, info.GetReason(), code, reason)
	}
	if info.GetDomain() != "easel" || service.Reason(st).String() != reason {
		t.Errorf("got domain %q; the contract has the reason %q as %v", info.GetDomain(), reason, service.Reason(st))
	}
	return st
}

// WithKey returns a context whose outgoing metadata contains a valid API key.
func WithKey(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer key")
}
