//go:build unix

package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// toldTeams are the teams with events. Their common receiver is at times silent, returns 500, or
// accepts an event without a response, until the world is calm.
var toldTeams = []string{"studio", "shop"}

// toSomebody selects the events of those teams. Events of the other teams are written, but not
// sent.
const toSomebody = `owner IN ('studio', 'shop')`

const eventSecret = "whsec_dG9ydHVyZSBzaWducyBldmVyeSBldmVudCB3aXRoIHRoaXM="

// receiver is the receiver of the teams with events.
type receiver struct {
	world *ledgerWorld

	mu    sync.Mutex
	posts int
	got   map[string]map[string]bool // ids, by type and subject
	tale  map[string]int             // number of responses with each fault
}

func startReceiver(t *testing.T, l *ledgerWorld) (url string) {
	l.receiver = &receiver{world: l, got: map[string]map[string]bool{}, tale: map[string]int{}}
	server := httptest.NewServer(l.receiver)
	t.Cleanup(server.Close)
	return server.URL
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var e struct{ ID, Type, Subject string }
	if err := json.NewDecoder(request.Body).Decode(&e); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	trouble := rand.IntN(8)
	if r.count() > troubledPosts && r.world.isCalm() {
		trouble = -1
	}
	switch trouble {
	case 0:
		r.met("answered 500")
		w.WriteHeader(http.StatusInternalServerError)
		return
	case 1:
		r.met("cut off before it was taken")
		panic(http.ErrAbortHandler)
	case 2:
		r.met("slow")
		select {
		case <-time.After(time.Duration(rand.IntN(3000)) * time.Millisecond):
		case <-request.Context().Done():
			return
		}
	}
	r.take(e.Type+" "+e.Subject, e.ID)
	if trouble == 3 {
		r.met("taken, and cut off")
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

// troubledPosts is the number of first requests that fail even in a calm world, because few
// processes live long enough to send events while they are killed.
const troubledPosts = 100

// count counts a POST.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts++
	return r.posts
}

func (r *receiver) met(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tale[what]++
}

func (r *receiver) take(event, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got[event] == nil {
		r.got[event] = map[string]bool{}
	}
	if r.got[event][id] {
		r.tale["taken again"]++
	}
	r.got[event][id] = true
}

// delivered waits until every event is delivered. It returns a snapshot of the ledger at that
// moment, and the events that had arrived before. The facades continue to run and settle refunds.
func (l *ledgerWorld) delivered(ctx context.Context, db *sql.DB) (snapshot *sql.Tx, before map[string]bool, err error) {
	for end := time.Now().Add(time.Minute); ; pauseFor(ctx, 100*time.Millisecond) {
		before = l.receiver.arrived()
		snapshot, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err != nil {
			return nil, nil, err
		}
		pending := 0
		if err = snapshot.QueryRowContext(ctx, `SELECT COUNT(*) FROM events WHERE state <> 1 AND `+toSomebody).Scan(&pending); err == nil && pending == 0 {
			return snapshot, before, nil
		}
		if err = errors.Join(err, snapshot.Rollback()); err != nil {
			return nil, nil, err
		}
		if time.Now().After(end) {
			return nil, nil, fmt.Errorf("%d events were not delivered within a minute", pending)
		}
	}
}

// arrived returns the types and subjects of the events that have arrived, except those of budgets.
func (r *receiver) arrived() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]bool{}
	for event := range r.got {
		if !strings.HasPrefix(event, ledger.EventBudget) {
			all[event] = true
		}
	}
	return all
}

// compareEvents compares the arrived events with a snapshot of the ledger in which every event was
// delivered. No event may have arrived earlier that the ledger does not have.
func (l *ledgerWorld) compareEvents(ctx context.Context, t *testing.T, snapshot *sql.Tx, before map[string]bool) error {
	t.Helper()
	r := l.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	written := 0
	err := each(ctx, snapshot, `SELECT id, type, subject FROM events WHERE `+toSomebody, func(rows *sql.Rows) error {
		var id, kind, subject string
		if err := rows.Scan(&id, &kind, &subject); err != nil {
			return err
		}
		written++
		if kind == ledger.EventBudget {
			return nil
		}
		if ids := r.got[kind+" "+subject]; len(ids) != 1 || !ids[id] {
			fault("%s of %s has the id %s, and has arrived with %v", kind, subject, id, ids)
		}
		return nil
	})
	if err != nil {
		return err
	}
	expected := map[string]bool{}
	err = each(ctx, snapshot, `SELECT owner, COALESCE(generation_id, ''), status, deleted, failed_time FROM orders`, func(rows *sql.Rows) error {
		var owner, id string
		var status lifecycle.Status
		var deleted, failed int64
		if err := rows.Scan(&owner, &id, &status, &deleted, &failed); err != nil || !slices.Contains(toldTeams, owner) {
			return err
		}
		kinds := map[lifecycle.Status]string{lifecycle.Succeeded: ledger.EventSucceeded, lifecycle.Failed: ledger.EventFailed, lifecycle.Refunded: ledger.EventRefunded}
		if kind := kinds[status]; kind != "" {
			expected[kind+" "+id] = true
		}
		if failed > 0 {
			expected[ledger.EventFailed+" "+id] = true
		}
		if deleted == 1 {
			expected[ledger.EventDeleted+" "+id] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for event := range expected {
		if len(r.got[event]) != 1 {
			fault("%s has arrived with %d ids", event, len(r.got[event]))
		}
	}
	for event := range before {
		if !expected[event] {
			fault("%s has arrived as %v, and did not happen", event, r.got[event])
		}
	}
	t.Logf("%d events were written, %d of renders were to arrive, %v", written, len(expected), r.tale)
	if len(expected) < 10 || r.tale["answered 500"] == 0 || r.tale["taken, and cut off"] == 0 {
		fault("only %d events were to be told, or no receiver was in trouble: %v", len(expected), r.tale)
	}
	return some(faults)
}
