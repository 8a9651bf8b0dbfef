package sandbox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// The example serves a catalog for tests, creates a key, injects a fault, and audits the ledger at the end.
func Example() {
	catalog, err := sandbox.Open(sandbox.Config{Seed: 1, Speed: 100})
	if err != nil {
		panic(err)
	}
	defer catalog.Close()
	server := httptest.NewServer(catalog)
	defer server.Close()
	key, err := catalog.CreateKey(context.Background(), sandbox.KeyConfig{BalanceCents: 500})
	if err != nil {
		panic(err)
	}
	fault := catalog.Inject(sandbox.Fault{Route: "GET /me", Count: 1, Status: 503, Header: map[string]string{"Retry-After": "2"}})

	for range 2 {
		req, err := http.NewRequest(http.MethodGet, server.URL+sandbox.BasePath+"/me", nil)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := server.Client().Do(req)
		if err != nil {
			panic(err)
		}
		res.Body.Close()
		fmt.Println(res.Status)
	}
	audit, err := catalog.Audit(context.Background(), key)
	fmt.Println(fault.Fired(), audit.Check(), err)
	// Output:
	// 503 Service Unavailable
	// 200 OK
	// 1 <nil> <nil>
}
