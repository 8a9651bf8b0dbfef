//go:build unix

package torture

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// stage is a point in an exchange at which a fault may happen.
type stage int

const (
	requesting   stage = iota // the proxy in front of the catalog has received a request from an Easel server
	responding                // the proxy in front of the catalog has received a response from the catalog
	sending                   // the proxy in front of the catalog has received an order from an Easel server
	sendingLarge              // the proxy in front of the catalog has received the start of a large order
	answering                 // the proxy in front of the catalog has received the catalog's response to an order
	returning                 // the proxy in front of an Easel server has received the successful response to an order
	returned                  // the caller has received the successful response to an order
	committing                // the proxy in front of PostgreSQL has received a commit from an Easel server
	committed                 // the proxy in front of PostgreSQL has received the response to a commit
	posting                   // a team's webhook receiver has received an event
)

// passes contains the approximate number of times that an order passes through each stage.
var passes = map[stage]float64{
	requesting: 2, responding: 2, sending: 1, sendingLarge: 1. / largeEvery, answering: 1, returning: 1, returned: 1, committing: 4, committed: 4,
}

// group is a class of faults. A run continues until enough faults from each group have happened.
type group int

const (
	facadeKills group = iota
	catalogKills
	cuts
	callerCuts
	databaseKills
	stalls
	ledgerCuts
	receiverFaults
)

// fault is a row in the table of faults. When a message reaches the fault's stage, the first part of the message may be
// forwarded. Then the fault's action is performed, and most faults close the connection.
type fault struct {
	name      string
	group     group
	at        stage
	part      func(m message) int    // returns the number of bytes of the message that are forwarded before the action is performed
	act       func(x *exchange) bool // performs the action and reports whether the fault has happened
	continues bool                   // whether the connection stays open
	rare      bool                   // whether the fault takes a long time, and is therefore only a quarter as likely
}

// faults is the table of faults. A name that starts with an ID, such as K1, refers to the list in
// cmd/easel/faults_test.go.
var faults = []fault{
	{name: "K1 a facade killed before the order is sent", group: facadeKills, at: sending, part: nothing, act: killFacade},
	{name: "K2 a facade killed while it writes the order", group: facadeKills, at: sendingLarge, part: startOfBody, act: killWriter},
	{name: "K3 a facade killed after the catalog has accepted the order", group: facadeKills, at: answering, part: nothing, act: killFacade},
	{name: "K4 a facade killed while it receives the response", group: facadeKills, at: answering, part: something, act: killFacade},
	{name: "K4 a facade killed after the response", group: facadeKills, at: answering, part: everything, act: killFacade},
	{name: "K5 a facade killed before the caller gets the response", group: facadeKills, at: returning, part: nothing, act: killFacade},
	{name: "K6 a facade killed after the caller has got the response", group: facadeKills, at: returned, part: nothing, act: killFacade},
	{name: "S1 the catalog killed before it receives the order", group: catalogKills, at: sending, part: nothing, act: killCatalog},
	{name: "S1 the catalog killed while it receives the order", group: catalogKills, at: sending, part: something, act: killCatalog},
	{name: "S1 the catalog killed while it processes the order", group: catalogKills, at: sending, part: everything, act: killCatalogSoon, continues: true},
	{name: "S1 the catalog killed after its response", group: catalogKills, at: answering, part: nothing, act: killCatalog},
	{name: "a connection closed during a request", group: cuts, at: requesting, part: anything, act: closeConnection},
	{name: "a connection reset during a request", group: cuts, at: requesting, part: anything, act: resetConnection},
	{name: "a connection black-holed during a request", group: cuts, at: requesting, part: anything, act: blackHole, rare: true},
	{name: "a connection closed during a response", group: cuts, at: responding, part: anything, act: closeConnection},
	{name: "a connection reset during a response", group: cuts, at: responding, part: anything, act: resetConnection},
	{name: "a connection black-holed during a response", group: cuts, at: responding, part: anything, act: blackHole, rare: true},
	{name: "a caller's connection closed during the response", group: callerCuts, at: returning, part: anything, act: closeConnection},

	{name: "a facade killed before a commit", group: facadeKills, at: committing, part: nothing, act: killFacade},
	{name: "a facade killed before the response to a commit", group: facadeKills, at: committed, part: nothing, act: killFacade},
	{name: "a facade killed after the response to a commit", group: facadeKills, at: committed, part: everything, act: killFacade},
	{name: "a connection stalled before a commit", group: stalls, at: committing, part: nothing, act: silenceCommit},
	{name: "a facade stopped before a commit", group: stalls, at: committing, part: nothing, act: stopFacade, continues: true},
	{name: "a connection closed before a commit", group: ledgerCuts, at: committing, part: nothing, act: closeConnection},
	{name: "a connection closed before the response to a commit", group: ledgerCuts, at: committed, part: nothing, act: closeConnection},
	{name: "a connection black-holed before the response to a commit", group: ledgerCuts, at: committed, part: nothing, act: blackHole},
	{name: "a PostgreSQL backend killed before a commit", group: databaseKills, at: committing, part: nothing, act: killBackend},
	{name: "a PostgreSQL backend killed before its response", group: databaseKills, at: committed, part: nothing, act: killBackend},
	{name: "PostgreSQL killed before a commit", group: databaseKills, at: committing, part: nothing, act: killDatabase},
	{name: "PostgreSQL killed before its response", group: databaseKills, at: committed, part: nothing, act: killDatabase},

	{name: "a receiver that responds with status 500", group: receiverFaults, at: posting, part: nothing, act: answer500, continues: true},
	{name: "a receiver that closes the connection before it records an event", group: receiverFaults, at: posting, part: nothing, act: closeConnection},
	{name: "a receiver that closes the connection after it has recorded an event", group: receiverFaults, at: posting, part: everything, act: closeConnection},
}

// exchange contains the processes and connections on which a fault may act. Only the fields that the fault may need are
// set.
type exchange struct {
	world    *world
	facade   *proctest.Process
	catalog  *proctest.Process
	near     *net.TCPConn  // connection from the sender of the request
	dropped  io.Reader     // reader whose bytes the fault blackHole discards
	unread   *bufio.Reader // reader of the rest of the request
	size     int           // size of the request body in bytes
	over     chan struct{} // closed when PostgreSQL has closed the connection
	backend  int           // PID of the PostgreSQL backend
	response http.ResponseWriter
}

func nothing(message) int       { return 0 }
func everything(m message) int  { return len(m.head) + m.size }
func something(m message) int   { return 1 + rand.IntN(max(1, len(m.head)+m.size-1)) }
func anything(m message) int    { return rand.IntN(len(m.head) + m.size + 1) }
func startOfBody(m message) int { return len(m.head) + rand.IntN(16<<10) }

func killFacade(x *exchange) bool  { return x.facade.Kill() }
func killCatalog(x *exchange) bool { return x.catalog.Kill() }

// killWriter kills an Easel server that is writing a request. It reports whether the server died before it had passed
// the complete request to the kernel.
func killWriter(x *exchange) bool {
	first := x.facade.Kill()
	rest, _ := io.Copy(io.Discard, x.unread)
	return first && int(rest) < x.size-16<<10
}

// killCatalogSoon kills the catalog at a random time within the next few milliseconds. Processing an order takes about
// as long, so the kill may happen at any step of the processing.
func killCatalogSoon(x *exchange) bool {
	x.world.work.Go(func() {
		time.Sleep(rand.N(4 * time.Millisecond))
		x.catalog.Kill()
	})
	return true
}

func closeConnection(*exchange) bool { return true }

func resetConnection(x *exchange) bool { return x.near.SetLinger(0) == nil }

// blackHole drops all bytes until the connection is closed or the faults end.
func blackHole(x *exchange) bool {
	defer context.AfterFunc(x.world.storm, func() { x.near.Close() })()
	_, _ = io.Copy(io.Discard, x.dropped)
	return true
}

// stallTime is longer than the time for which a transaction may block others.
const stallTime = 12 * time.Second

// silenceCommit forwards no bytes in either direction until PostgreSQL closes the connection, or for [stallTime] if
// PostgreSQL does not close it.
func silenceCommit(x *exchange) bool {
	select {
	case <-x.over:
	case <-time.After(stallTime):
	}
	return true
}

func stopFacade(x *exchange) bool {
	pauseProcess(x.facade, stallTime)
	return true
}

func killDatabase(x *exchange) bool { return x.world.restartDatabase(x.world.postgres.Kill) }

func killBackend(x *exchange) bool {
	return x.world.restartDatabase(func() { _ = syscall.Kill(x.backend, syscall.SIGKILL) }) // the kill has no effect if the backend has already exited
}

func answer500(x *exchange) bool {
	x.response.WriteHeader(http.StatusInternalServerError)
	return true
}

// faultCounts returns, for each group, the number of faults that have happened. The caller must hold w.mu.
func (w *world) faultCounts() map[group]float64 {
	sums := map[group]float64{}
	for _, f := range w.faults {
		sums[f.group] += float64(w.tally[f.name])
	}
	return sums
}

// faultProbability returns the probability that the fault f happens to a message. faultCount is the number of faults in
// f's group so far. The probability is higher if this number is small compared with the number of orders, and lower if
// it is large. With fixed probabilities, a slow machine would spend all its time on faults, because callers repeat
// their orders after each fault. The caller must hold w.mu.
func (w *world) faultProbability(f *fault, faultCount float64) float64 {
	if f.at == posting {
		return 1. / 8
	}
	of := 0
	for _, other := range w.faults {
		if other.group == f.group {
			of++
		}
	}
	share := 1.5 * w.goal[f.group] / (float64(of) * w.orders * passes[f.at])
	if f.rare {
		share /= 4
	}
	due := w.goal[f.group] * float64(len(w.placed)) / w.orders
	switch slack := w.goal[f.group] / 10; {
	case w.tally[f.name] == 0, faultCount < due-slack:
		return 3 * share
	case faultCount > due+slack:
		return share / 10
	}
	return share
}

// drawFault randomly selects a fault for a message at one of the given stages, or nil. [world.faultProbability] returns
// the probability of each fault.
func (w *world) drawFault(at ...stage) *fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	happened := w.faultCounts()
	for _, n := range rand.Perm(len(w.faults)) {
		f := &w.faults[n]
		for _, s := range at {
			if f.at == s && (s == posting || !w.isCalm()) && rand.Float64() < w.faultProbability(f, happened[f.group]) {
				return f
			}
		}
	}
	return nil
}

// injectFault injects the fault f and reports whether the connection must be closed.
func (w *world) injectFault(f *fault, x *exchange) (ended bool) {
	if f.act(x) {
		w.mu.Lock()
		w.tally[f.name]++
		w.mu.Unlock()
	}
	return !f.continues
}

// missingFaults returns the names of faults that have not happened, and a text for each group in which too few faults
// have happened. It includes faults at the webhook receiver only when callers no longer place new orders.
func (w *world) missingFaults() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	happened := w.faultCounts()
	for _, f := range w.faults {
		if w.tally[f.name] == 0 && (f.at != posting || w.isCalm()) {
			names = append(names, f.name)
		}
	}
	for g, n := range w.goal {
		if happened[g] < n {
			names = append(names, fmt.Sprintf("%.0f of %.0f faults of group %d", happened[g], n, g))
		}
	}
	return names
}
