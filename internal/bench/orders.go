package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

const orderCount = 1000 // number of sequential orders, before it is multiplied by the scale

// Orders are measured once for each kind of ledger database. The peer, which is the program that Easel is compared with, has
// no ledger: it only requests a quote and places the order.
var (
	sqliteOrders   = &measurement{sides: sides{thePeer, inSQLite}, measure: measureOrders("sqlite")}
	postgresOrders = &measurement{sides: sides{thePeer, inPostgres}, measure: measureOrders("postgres")}
)

// measureOrders returns a function that measures the duration of sequential orders, and the number of orders that
// concurrent callers place per second.
func measureOrders(ledger string) func(context.Context, *scene) (figures, error) {
	return func(ctx context.Context, s *scene) (figures, error) {
		s.catalog.unlisted.Store(true)
		var times []float64
		n := s.scaledLoad(orderCount)
		for i := range n + n/5 {
			begin := time.Now()
			if err := s.placeOrder(ctx); err != nil {
				return nil, err
			}
			if i >= n/5 { // the first orders only warm up the server
				times = append(times, float64(time.Since(begin).Microseconds())/1000)
			}
		}
		if _, _, err := s.callFor(ctx, warmUp, s.placeOrder); err != nil {
			return nil, err
		}
		_, rate, err := s.callFor(ctx, callTime, s.placeOrder)
		return figures{ledger + "-order": median(times), ledger + "-rate": rate}, err
	}
}

var ordered atomic.Int64

// placeOrder places a new order with a price limit, so that both Easel and the peer request a quote.
func (s *scene) placeOrder(ctx context.Context) error {
	_, err := s.client.CreateGeneration(ctx, &easelv1.CreateGenerationRequest{
		ModelId: "studio/landscape", IdempotencyKey: "order-" + strconv.FormatInt(ordered.Add(1), 10), MaxCostCents: new(int64(1000)),
		InputsJson: `{"prompt":"a calm sea at dusk with three small boats and a lighthouse","size":"1600x1000"}`,
	})
	return err
}

// callersText is a callers file with a budget that is checked but never exhausted.
const callersText = `teams: {bench: {budget: {daily_cents: 1000000000000, monthly_cents: 1000000000000}}}
callers: [{name: bench, team: bench, tokens: ["sha256:%s"]}]
`

// ledgerFlags returns the flags for a facade with the shared API key, the callers file and a ledger on disk. The ledger is
// in PostgreSQL for inPostgres, and otherwise in SQLite. For theEasel, ledgerFlags returns no flags.
func (s *scene) ledgerFlags(f facade) (flags []string, err error) {
	dir, err := os.MkdirTemp(s.dir, "ledger-")
	if err != nil || f == theEasel {
		return nil, err
	}
	key, callers := filepath.Join(dir, "key"), filepath.Join(dir, "callers.yaml")
	if err := os.WriteFile(key, []byte(benchKey), 0o600); err != nil {
		return nil, err
	}
	flags = []string{"--upstream-key-file", key}
	token := sha256.Sum256([]byte(benchKey)) // benchKey is both the shared API key and the caller's token
	text := fmt.Appendf(nil, callersText, hex.EncodeToString(token[:]))
	if err := os.WriteFile(callers, text, 0o600); err != nil {
		return nil, err
	}
	url := "sqlite:" + filepath.Join(dir, "ledger.db")
	if f == inPostgres {
		url, err = s.startPostgres()
	}
	return append(flags, "--callers-file", callers, "--ledger-url", url), err
}

// startPostgres starts a PostgreSQL server with default settings, which runs until the end of the scene. It returns the URL
// of a new database on this server.
func (s *scene) startPostgres() (url string, err error) {
	server, err := proctest.NewPostgres()
	if err != nil {
		return "", err
	}
	s.undo = append(s.undo, server.Remove)
	return server.Create(context.Background())
}
