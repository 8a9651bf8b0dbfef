//go:build unix

package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver for PostgreSQL
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/promises"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// Time limits after the last fault. They are long, because thousands of orders may wait on a busy machine.
const (
	knownWithin     = 3 * time.Minute // for the outcome of each order
	settledWithin   = time.Minute     // for the settlement of an order, after its generation has been read
	deliveredWithin = 3 * time.Minute // for the delivery of an order's events; exceeds the limit in package promises
)

// settleOrders waits until all orders are settled and all events are delivered. It returns the record of the run, with
// the contents of the catalog's account and of the ledger.
func (w *world) settleOrders() (run promises.Run, err error) {
	account, err := w.settledAccount()
	if err != nil {
		return run, err
	}
	if err := w.readUnsettled(); err != nil {
		return run, err
	}
	if _, err := w.awaitNone("settled without all events delivered", `EXISTS (SELECT 1 FROM events WHERE state <> 1 AND owner IN ('`+strings.Join(receivers, "', '")+`'))`, deliveredWithin); err != nil {
		return run, err
	}
	run = promises.Run{
		IsShared: true, HasLedger: true, HasEvents: true, Begin: w.record.Begin, Healed: w.record.Since(), End: time.Hour, Events: w.record.Sorted(),
		Limits: w.limits, Receivers: map[string]bool{}, IsCaller: func(owner, caller string) bool { return caller == owner+"-service" },
	}
	run.End += run.Healed // package promises treats a missing event as if it arrived at run.End, which must therefore be after every event's deadline
	for _, team := range receivers {
		run.Receivers[team] = true
	}
	run.AddAccount("shared", account)
	verified, err := ledger.Verify(w.ctx, w.ledger, func(d ledger.Difference) { run.Differences = append(run.Differences, d.String()) })
	if err == nil && verified.Orders == 0 {
		err = errors.New("the ledger has no orders to verify")
	}
	return run, errors.Join(err, w.readLedger(&run))
}

// settledAccount waits until every generation has succeeded or has been refunded. It returns the account in the
// catalog.
func (w *world) settledAccount() (account sandbox.Audit, err error) {
	for ; ; pauseFor(w.ctx, 50*time.Millisecond) {
		catalog := w.catalog.runningProcess()
		if catalog == nil && w.ctx.Err() == nil { // the catalog is being restarted
			continue
		}
		account, err = readAccount(w.ctx, catalog.HTTP)
		open := slices.ContainsFunc(account.Generations, func(g sandbox.AuditedGeneration) bool { return g.Status != "succeeded" && g.Status != "refunded" })
		if err != nil || !open {
			return account, err
		}
	}
}

// readAccount reads the account from the sandbox's administration API, for the API key with which all orders are
// placed.
func readAccount(ctx context.Context, address string) (account sandbox.Audit, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+sandbox.AdminPath+"audit?key="+key, nil)
	if err != nil {
		return account, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return account, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return account, errors.New("the catalog's account can't be read: " + answer.Status)
	}
	return account, json.NewDecoder(answer.Body).Decode(&account)
}

// awaitNone waits until no order in the ledger matches an SQL condition, and returns the time that it has waited. If
// this takes longer than the given limit, it returns an error. In the error, the string description describes the
// remaining orders.
func (w *world) awaitNone(description, condition string, within time.Duration) (took time.Duration, err error) {
	for began := time.Now(); ; pauseFor(w.ctx, 100*time.Millisecond) {
		left := 0
		if err := w.query("SELECT COUNT(*) FROM orders WHERE "+condition, func(rows *sql.Rows) error { return rows.Scan(&left) }); err != nil {
			return 0, err
		}
		took = time.Since(began)
		switch {
		case left == 0:
			return took, nil
		case took > within:
			return took, fmt.Errorf("%d orders are still %s after %v", left, description, took)
		}
	}
}

// query executes a query over a connection that no fault affects, and calls scanRow for each row.
func (w *world) query(query string, scanRow func(*sql.Rows) error) error {
	db, err := w.openLedger()
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(w.ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scanRow(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readUnsettled reads each unsettled generation as a caller of its team, and waits until all orders are settled.
// Without these reads, each replica would read only ten of the generations per minute.
func (w *world) readUnsettled() error {
	var reads errgroup.Group
	reads.SetLimit(8)
	err := w.query(`SELECT generation_id, owner FROM orders WHERE state = 2 AND settled = 0`, func(rows *sql.Rows) error {
		generation, owner := "", ""
		err := rows.Scan(&generation, &owner)
		reads.Go(func() error { return w.callers[slices.Index(teams, owner)].read(generation) })
		return err
	})
	took, unsettled := w.awaitNone("unsettled", "state = 2 AND (settled = 0 OR cost_cents IS NULL)", settledWithin)
	w.t.Logf("all orders are settled within %v", took.Round(100*time.Millisecond))
	return errors.Join(err, reads.Wait(), unsettled)
}

func (c *caller) read(generation string) error {
	ctx, cancel := context.WithTimeout(proctest.Bearing(c.world.ctx, c.world.tokens[c.team]), 10*time.Second)
	defer cancel()
	request := &easelv1.GetGenerationRequest{GenerationId: generation, MaxStaleness: durationpb.New(0)}
	if _, err := c.client.GetGeneration(ctx, request, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("reading %s of team %s failed: %w", generation, c.team, err)
	}
	return nil
}

// readLedger reads the orders and budgets from the ledger. If an order failed and was then refunded, readLedger also
// adds a version of the order in which its status is still Failed.
func (w *world) readLedger(run *promises.Run) error {
	orders := w.query(`SELECT id, owner, caller, upstream_key, api_key, COALESCE(generation_id, ''), state, reserved_cents, COALESCE(cost_cents, -1), refunded_cents,
		unconfirmed_cents, settled, status, deleted, order_time, failed_time FROM orders ORDER BY order_time`, func(rows *sql.Rows) error {
		var v promises.Version
		var settled, deleted, ordered, failed int64
		err := rows.Scan(&v.ID, &v.Owner, &v.Caller, &v.Key, &v.APIKey, &v.Generation, &v.State, &v.Reserved, &v.Cost, &v.Refunded,
			&v.Unconfirmed, &settled, &v.Status, &deleted, &ordered, &failed)
		v.Settled, v.Deleted, v.Time = settled == 1, deleted == 1, time.UnixMicro(ordered).UTC()
		if failed > 0 {
			before := v
			before.Status = lifecycle.Failed
			run.Versions = append(run.Versions, before)
			v.At++
		}
		run.Versions = append(run.Versions, v)
		return err
	})
	budgets := w.query(`SELECT owner, period, start_time, spent_cents, reserved_cents FROM budgets`, func(rows *sql.Rows) error {
		var v promises.BudgetVersion
		var started int64
		err := rows.Scan(&v.Owner, &v.Period, &started, &v.Spent, &v.Reserved)
		v.Start = time.UnixMicro(started).UTC()
		run.Budgets = append(run.Budgets, v)
		return err
	})
	return errors.Join(orders, budgets)
}

const eventSecret = "whsec_dG9ydHVyZSBzaWducyBldmVyeSBldmVudCB3aXRoIHRoaXM="

// receiver receives the events of all teams. In a short run, most events are sent after the other faults have ended.
// Faults at the receiver therefore continue until it has received [troubledPosts] requests.
type receiver struct {
	world *world
	url   string

	mu    sync.Mutex
	posts int
	all   []promises.Arrival
}

// troubledPosts is the number of requests after which the receiver's faults no longer happen.
const troubledPosts = 100

func startReceiver(w *world) *receiver {
	r := &receiver{world: w}
	server := httptest.NewServer(r)
	w.t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.mu.Lock()
	r.posts++
	early := r.posts <= troubledPosts
	r.mu.Unlock()
	var f *fault
	if early {
		f = r.world.drawFault(posting)
	}
	if f == nil || f.part(message{size: len(body)}) > 0 {
		r.recordEvent(promises.NewArrival(strings.TrimPrefix(request.URL.Path, "/"), eventSecret, request.Header, body))
	}
	if f == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	x := &exchange{world: r.world, response: w}
	if r.world.injectFault(f, x); f.continues {
		return
	}
	panic(http.ErrAbortHandler)
}

// recordEvent records an event. It skips valid budget events, because they cannot be compared with the ledger, which
// contains only the final amounts.
func (r *receiver) recordEvent(a promises.Arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.At = r.world.record.Since(); a.Type != ledger.EventBudget || a.Fault != "" {
		r.all = append(r.all, a)
	}
}

func (r *receiver) arrivals() []promises.Arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}
