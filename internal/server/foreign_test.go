package server_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// counted is a connector to a ledger that counts what it is asked. A file outlives each of its connections.
type counted struct {
	driver driver.Driver
	file   string
	asked  *atomic.Int64
}

// counting gives the connector of a ledger whose statements are counted; nil where nobody counts.
func counting(t *testing.T, asked *atomic.Int64) driver.Connector {
	if asked == nil {
		return nil
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return counted{db.Driver(), filepath.Join(t.TempDir(), "ledger"), asked}
}

func (c counted) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open("file:" + c.file + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=foreign_keys(ON)")
	return countedConn{conn, c.asked}, err
}

func (c counted) Driver() driver.Driver { return c.driver }

type countedConn struct {
	driver.Conn
	asked *atomic.Int64
}

func (c countedConn) Prepare(query string) (driver.Stmt, error) {
	c.asked.Add(1)
	return c.Conn.Prepare(query)
}

// crowd are teams, of which the first orders and the others own nothing.
func crowd(t *testing.T, n int) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "callers")
	lines := "callers:\n"
	for i := range n {
		name := fmt.Sprint("team-", i)
		lines += fmt.Sprintf("  - {name: %s, tokens: [sha256:%x]}\n", name, sha256.Sum256([]byte(name)))
	}
	writeText(t, file, lines)
	return file
}

// delivered counts what watches were told: updates, and the generations of each watch.
type delivered struct {
	atomic.Int64
	generations atomic.Int64
}

// everythingOf opens watches of everything, and waits until they have caught up.
func everythingOf(t *testing.T, c caller, n int) (updates *delivered) {
	t.Helper()
	updates = new(delivered)
	caughtUp := make(chan int32, n)
	for range n {
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		go func() {
			seen := map[string]bool{}
			_ = c.watchMany(ctx, &easelv1.WatchGenerationsRequest{}, func(m *easelv1.WatchGenerationsResponse) bool {
				if update := m.GetUpdate(); update != nil {
					updates.Add(1)
					if id := update.GetGeneration().GetGenerationId(); !seen[id] {
						seen[id] = true
						updates.generations.Add(1)
					}
				}
				if m.GetCaughtUp() != nil {
					caughtUp <- m.GetCaughtUp().GetGenerationCount()
				}
				return true
			})
		}()
	}
	for range n {
		select {
		case <-caughtUp:
		case <-time.After(time.Minute):
			t.Fatal("a watch does not catch up")
		}
	}
	return updates
}

func TestAWatchOfEverythingAsksNobodyAboutForeignGenerations(t *testing.T) { // D9
	file := crowd(t, 21)
	synctest.Test(t, func(t *testing.T) {
		asked := new(atomic.Int64)
		s := heldStackFrom(t, file, func(o *options) { o.memory, o.asked, o.sandbox.Speed = true, asked, 0.001 })
		var foreign []*delivered
		for i := range 20 {
			foreign = append(foreign, everythingOf(t, grpcCaller{s, fmt.Sprint("team-", i+1)}, 5))
		}
		own := everythingOf(t, grpcCaller{s, "team-0"}, 5)
		before := asked.Load()
		time.Sleep(25 * time.Second)
		idle := asked.Load() - before
		for n := range 40 {
			create(t, grpcCaller{s, "team-0"}, order(t, text, fmt.Sprint(n), "a lake"))
		}
		synctest.Wait()
		placing := asked.Load()
		time.Sleep(25 * time.Second)
		// What the owner costs is recorded and read: some statements for each generation. Where the foreign watches
		// ask too, there are 400 and more.
		n := asked.Load() - placing - idle
		if n > 6*40 {
			t.Errorf("40 generations beside 100 watches of others cost the ledger %d questions", n)
		}
		if own.Load() < 5*40 {
			t.Errorf("the owner's five watches are told %d updates of 40 generations", own.Load())
		}
		for _, updates := range foreign {
			if updates.Load() != 0 {
				t.Error("another is told of it")
			}
		}
	})
}

func TestAListThatIsTooLargeSilencesNoTeam(t *testing.T) { // D8
	file := crowd(t, 2)
	synctest.Test(t, func(t *testing.T) {
		s := heldStackFrom(t, file, func(o *options) { o.memory, o.sandbox.Speed = true, 0.001 })
		c := grpcCaller{s, "team-1"}
		create(t, c, order(t, text, "before", "a lake"))
		large := s.sandbox.Inject(sandbox.Fault{Route: "GET /generations", Status: 200, Body: "[" + strings.Repeat(" ", 20<<20)})
		updates := everythingOf(t, c, 1)
		if updates.Load() != 1 {
			t.Errorf("%d updates before it has caught up", updates.Load())
		}
		create(t, c, order(t, text, "after", "a lake"))
		time.Sleep(time.Minute)
		if updates.Load() < 2 || large.Fired() == 0 {
			t.Errorf("%d updates, and %d lists that are too large", updates.Load(), large.Fired())
		}
	})
}
