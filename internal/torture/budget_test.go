//go:build unix

package torture

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// elevenCents are inputs of an essay that costs as much.
var elevenCents = `{"paragraphs":5,"prompt":"` + strings.Repeat("x", 100) + `"}`

// TestABudgetHoldsOverThreeReplicas sends concurrent orders through three processes that cost more than a budget of a
// hundred cents. T5
func TestABudgetHoldsOverThreeReplicas(t *testing.T) {
	t.Parallel()
	url, token := proctest.StartPostgres(t).Database(t), auth.NewToken()
	catalog := startCatalog(t, filepath.Join(t.TempDir(), "catalog.db"))
	callers := `{"teams": {"shop": {"budget": {"monthly_cents": 100}}}, "callers": [{"name": "shop-service", "team": "shop", "tokens": ["` + auth.Hash(token) + `"]}]}`
	settings := []string{"EASEL_LEDGER_URL=" + url, "EASEL_UPSTREAM_KEY_FILE=" + writeFile(t, "key", key), "EASEL_CALLERS_FILE=" + writeFile(t, "callers.yaml", callers)}
	clients := make([]easelv1.GenerationServiceClient, 3)
	for n := range clients {
		clients[n] = client(t, startFacade(t, catalog.http, settings...))
	}
	var placed, rejected atomic.Int64
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			request := orderOf(n)
			request.ModelId, request.InputsJson, request.MaxCostCents = "studio/essay", elevenCents, nil
			_, err := clients[n%3].CreateGeneration(bearing(t.Context(), token), request)
			switch status.Code(err) {
			case codes.OK:
				placed.Add(1)
			case codes.ResourceExhausted:
				rejected.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	a, err := readAccount(t.Context(), catalog.http)
	if err != nil || placed.Load() != 9 || rejected.Load() != 91 || len(a.Generations) != 9 || a.ChargeCents != 99 {
		t.Errorf("%d placed, %d rejected, %d cents charged for %d, %v", placed.Load(), rejected.Load(), a.ChargeCents, len(a.Generations), err)
	}
	if _, err := ledger.Verify(t.Context(), url, func(d ledger.Difference) { t.Error(d) }); err != nil {
		t.Error(err)
	}
}
