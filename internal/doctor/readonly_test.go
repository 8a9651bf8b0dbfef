package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDoctorSendsNoOrderOrDeletion(t *testing.T) {
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
	defer server.Close()
	transport := catalog.NewTransport()
	defer transport.CloseIdleConnections()
	client, err := catalog.New(catalog.Config{BaseURL: server.URL, Transport: &readOnlyTransport{next: transport}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	cred := catalog.Forwarded(catalog.NewSecret("studio_live_0123456789abcdef"))
	if err := client.Delete(ctx, cred, "a"); err == nil {
		t.Error("a deletion through the read-only transport succeeded")
	}
	order := catalog.Order{ModelID: "m", Inputs: json.RawMessage("{}"), IdempotencyKey: "k"}
	if _, _, err := client.Post(ctx, cred, order); err == nil {
		t.Error("an order through the read-only transport succeeded")
	}
	if sent.Load() > 0 {
		t.Errorf("%d requests were sent, want 0", sent.Load())
	}
}
