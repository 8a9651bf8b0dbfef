//go:build unix

package torture

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// elevenCents are inputs of an essay that costs as much.
var elevenCents = `{"paragraphs":5,"prompt":"` + strings.Repeat("x", 100) + `"}`

// TestABudgetHoldsOverThreeFacades sends concurrent orders through three processes that cost more than a budget of a
// hundred cents. T5
func TestABudgetHoldsOverThreeFacades(t *testing.T) {
	t.Parallel()
	url := proctest.StartPostgres(t).Database(t)
	catalog, err := startCatalog(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(catalog.kill)
	l := &ledgerWorld{tokens: map[string]string{}, limits: map[string]int64{"shop": 100}}
	settings := append(l.settings(t), "EASEL_LEDGER_URL="+url)
	clients := make([]easelv1.GenerationServiceClient, 3)
	for n := range clients {
		facade, err := startFacade(t.Context(), catalog.found[0], settings...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(facade.kill)
		conn, err := grpc.NewClient(facade.found[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		clients[n] = easelv1.NewGenerationServiceClient(conn)
	}
	var placed, refused atomic.Int64
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			request := orderOf(n)
			request.ModelId, request.InputsJson, request.MaxCostCents = "studio/essay", elevenCents, nil
			_, err := clients[n%3].CreateGeneration(bearing(t.Context(), l.tokens["shop"]), request)
			switch status.Code(err) {
			case codes.OK:
				placed.Add(1)
			case codes.ResourceExhausted:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	a, err := readAudit(t.Context(), catalog.found[0])
	if err != nil || placed.Load() != 9 || refused.Load() != 91 || len(a.Generations) != 9 || a.ChargeCents != 99 {
		t.Errorf("%d placed, %d refused, %d cents charged for %d, %v", placed.Load(), refused.Load(), a.ChargeCents, len(a.Generations), err)
	}
	if err := verifyBook(t.Context(), url); err != nil {
		t.Error(err)
	}
}
