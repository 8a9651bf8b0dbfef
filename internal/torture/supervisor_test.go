//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync/atomic"
	"time"
)

// point is a stage of an order at which a process can be killed.
type point int

const (
	beforeOrder   point = iota // K1: the facade has an order to send, and has sent no byte of it
	amidOrder                  // K2: the facade has written a part of the order
	afterCommit                // K3: the catalog has responded, and the facade has received no byte
	amidAnswer                 // K4: the facade has received a part of the response
	afterAnswer                // K4: the facade has received the complete response
	beforeHearing              // K5: the facade has responded, and the caller has received nothing
	afterHearing               // K6: the caller has received the response

	beforeWriting // a commit of the ledger is in flight
	amidWriting   // the ledger has committed, and the facade has received no response
	afterWriting  // the facade has received the response

	catalogBefore // S1: an order is in flight to the catalog
	catalogAmid   // S1: a part of it has arrived
	catalogTaking // S1: all of it has arrived; the exact moment is random
	catalogAfter  // S1: the catalog has responded, and the facade has received nothing
	points
)

func (p point) String() string {
	return [points]string{
		"K1 before the order is sent", "K2 while the order is written", "K3 after the catalog has taken it",
		"K4 in the middle of the answer", "K4 after the answer", "K5 before the caller hears", "K6 after the caller has heard",
		"before a commit of the ledger", "after a commit, before its answer", "after the answer to a commit",
		"S1 before it has the order", "S1 with a part of the order", "S1 while it takes the order", "S1 after its answer",
	}[p]
}

// every returns the number of orders after which the point is passed once.
func (p point) every() int {
	if p == amidOrder {
		return largeEvery
	}
	return 1
}

// supervisor starts a program, selects the points of its death, and starts it again.
type supervisor struct {
	world   *world
	name    string
	start   func(ctx context.Context) (*process, error)
	points  []point // where it dies, in turn
	skip    int     // maximum number of orders that pass before
	starts  atomic.Int64
	current atomic.Pointer[process]
}

// now returns the running process, or nil between two processes.
func (k *supervisor) now() *process { return k.current.Load() }

// supervise restarts the process until ctx is done. It returns earlier only after an unexpected
// failure.
func (k *supervisor) supervise(ctx context.Context) error {
	defer k.current.Store(nil)
	for n := 0; ctx.Err() == nil; n++ {
		p, err := k.start(ctx)
		if err != nil {
			return ignoreEnd(ctx, err)
		}
		k.starts.Add(1)
		at := k.points[n%len(k.points)]
		if !k.world.isCalm() {
			p.condemn(at, rand.IntN(k.skip/at.every()+1))
		}
		k.current.Store(p)
		if err := k.waitForEnd(ctx, p, at); err != nil {
			return err
		}
	}
	return nil
}

// waitForEnd waits for the end of a process. A condemned process must come nearer to its end in each minute, however slow the
// machine is.
func (k *supervisor) waitForEnd(ctx context.Context, p *process, at point) error {
	limit, calm, left := time.After(time.Minute), k.world.storm.Done(), p.passesLeft()
	for {
		select {
		case <-p.gone:
			k.current.Store(nil)
			if !p.wasKilled() {
				return ignoreEnd(ctx, fmt.Errorf("%s ended by itself\n%s", k.name, p.output.tail()))
			}
			k.world.tally.kill(at)
			return nil
		case <-calm:
			p.pardon()
			limit, calm = nil, nil
		case <-limit:
			if now := p.passesLeft(); now < left {
				limit, left = time.After(time.Minute), now
				continue
			}
			return fmt.Errorf("%s was never killed at %q\n%s", k.name, at, p.output.tail())
		case <-ctx.Done():
			p.kill()
			return nil
		}
	}
}

// ignoreEnd drops an error that comes from the end of the test.
func ignoreEnd(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

var (
	catalogReady = []*regexp.Regexp{regexp.MustCompile(`http://([\d.:]+)/api/`), regexp.MustCompile(`(Ctrl-C)`)}
	facadeReady  = []*regexp.Regexp{
		regexp.MustCompile(`"server":"grpc","addr":"([^"]+)"`), regexp.MustCompile(`"server":"http","addr":"([^"]+)"`),
		regexp.MustCompile(`"server":"admin","addr":"([^"]+)"`),
	}
)

// key is the API key of all orders. It is valid only in the sandbox of the test.
const key = "sandbox_live_torture"

// startCatalog starts a sandbox on a file.
func startCatalog(ctx context.Context, file string, args ...string) (*process, error) {
	return run(ctx, catalogReady, nil, append([]string{
		"sandbox", "--addr", "127.0.0.1:0", "--db", file, "--key", key, "--balance", "1000000.00", "--admin",
	}, args...)...)
}

// startFacade starts a facade before a catalog at an address.
func startFacade(ctx context.Context, upstream string, env ...string) (*process, error) {
	return run(ctx, facadeReady, append([]string{
		"EASEL_UPSTREAM_URL=http://" + upstream + "/api/v1/api/catalog",
		"EASEL_GRPC_ADDR=127.0.0.1:0", "EASEL_HTTP_ADDR=127.0.0.1:0", "EASEL_ADMIN_ADDR=127.0.0.1:0",
	}, env...), "serve")
}
