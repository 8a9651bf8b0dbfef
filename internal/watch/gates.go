package watch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/gate"
)

const (
	gatesTell  = 250 * time.Millisecond // between two reports of a gate that gives turns, or beside which another does
	gatesRest  = 500 * time.Millisecond // else; a pause of another replica may stay unknown for so long where the ledger does not notify
	gatesLeast = 50 * time.Millisecond  // between two reports, however often the ledger notifies
)

// ShareGate lets the gate of the held API key and those of other replicas be as one, until the context ends: it closes
// while the catalog wants to be left alone, as any replica was asked to, and shares the turns by what all of them have
// given. Without a book there are no others.
func (h *Hub) ShareGate(ctx context.Context, held catalog.Credential) {
	if h.cfg.Book == nil {
		return
	}
	replica := rand.Text()
	for ctx.Err() == nil {
		apiKey := held.APIKeySum()
		changed, stop := h.cfg.Book.Changed(apiKey)
		for apiKey == held.APIKeySum() && ctx.Err() == nil { // it may be rotated
			pause := gatesRest
			if exchange(ctx, h.cfg.Book, h.cfg.Gates.Of(string(held.Tenant)), apiKey, replica) {
				pause = gatesTell
			}
			waitFor(ctx, nil, gatesLeast)
			waitFor(ctx, changed, pause-gatesLeast)
		}
		stop()
	}
}

// exchange tells other replicas of a gate, and the gate of theirs. It reports whether any of them gives turns.
func exchange(ctx context.Context, book Book, g *gate.Gate, apiKey, replica string) (active bool) {
	report, active := g.Tell()
	text := []byte(nil)
	if active {
		text, _ = json.Marshal(report) // of texts and numbers
	}
	others, err := book.Exchange(ctx, apiKey, replica, string(text))
	if err != nil {
		return active
	}
	if others.Paused > 0 {
		g.Pause(time.Now().Add(others.Paused))
	}
	reports := map[string]gate.Report{}
	for other, text := range others.Reports {
		var r gate.Report
		if json.Unmarshal([]byte(text), &r) == nil { // else it is of another version
			reports[other] = r
		}
	}
	g.Hear(replica, reports)
	return active || len(reports) > 0
}

// waitFor waits for a change, for so long at most.
func waitFor(ctx context.Context, changed <-chan struct{}, most time.Duration) {
	select {
	case <-changed:
	case <-time.After(most):
	case <-ctx.Done():
	}
}
