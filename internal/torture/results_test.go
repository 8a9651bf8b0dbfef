//go:build unix

package torture

import (
	"bytes"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

var (
	resultCount  = flag.Int("results", 120, "Number of results to copy. With few results, repeated reads after kills are a large share of all reads.")
	resultRounds = flag.Int("result-rounds", 1, "Number of times to kill Easel, the store and the catalog in turn while results are copied.")
)

const (
	resultsWithin = 15 * time.Minute // time limit for all copies on a busy machine
	healedWithin  = 5 * time.Minute  // time limit for the remaining copies or deletions after the last kill
	atOnce        = 16
	callersAtOnce = 64
	clientCount   = 8
	copiesInWork  = 8 // maximum number of concurrent copies per process
	resultReplica = 2
)

// TestEachResultIsCopiedOnceDespiteProcessKills copies results while it kills Easel replicas, a real store and the
// catalog. Only results whose copying was interrupted may be read from the catalog again. Then the test
// downloads all results from their copies, and erases the orders and the copies.
func TestEachResultIsCopiedOnceDespiteProcessKills(t *testing.T) {
	began, g := time.Now(), openGallery(t)
	var ids []string
	ordering := sync.WaitGroup{}
	ordering.Go(func() { ids = g.orderAll(1, *resultCount) })
	kills := g.runStorm(*resultCount, *resultRounds)
	ordering.Wait()
	t.Logf("%d orders are placed, and %d results copied, after %v", *resultCount, g.copyCount(), time.Since(began).Round(time.Second))
	g.readUnfinished()
	g.awaitCopies(*resultCount, resultsWithin)
	reads, copying := g.door.reads.Load(), time.Since(began)

	wanted := g.wantedDigests(ids...)
	g.awaitObjects(*resultCount)
	if orders, rows := g.count(`SELECT COUNT(*) FROM orders`), g.count(`SELECT COUNT(*) FROM contents`); orders != *resultCount || rows != orders || len(wanted) != orders {
		t.Errorf("got %d orders, %d generations and %d rows of copies, want equal numbers", orders, len(wanted), rows)
	}
	g.verify()
	files := *resultCount - *resultCount/10 // every tenth result is a text, so it has no file
	again := max(files/100, 2*copiesInWork*resultReplica**resultRounds)
	t.Logf("%d results (%d files) copied in %v through %d kills: %d reads of content, %.4f a file", *resultCount, files, copying.Round(time.Second), kills, reads, float64(reads)/float64(files))
	if reads < int64(files) || reads > int64(files+again) {
		t.Errorf("%d reads for %d files, want at most %d additional reads", reads, files, again)
	}

	g.catalog.Kill()
	began = time.Now()
	if copies := g.downloadAll(wanted); copies != *resultCount {
		t.Errorf("only %d of %d results came from copies", copies, *resultCount)
	}
	t.Logf("%d downloads without the catalog in %v", *resultCount, time.Since(began).Round(time.Second))
	if after := g.door.reads.Load(); after != reads {
		t.Errorf("the catalog was read %d more times", after-reads)
	}
	g.startCatalog()

	g.verify()
	g.erase(*resultCount)
}

// verify runs the operators' command that compares the ledger with the store.
func (g *gallery) verify() {
	g.Helper()
	if text, err := g.runEasel("content", "verify", "--bytes"); err != nil || !strings.Contains(text, " 0 differences") {
		g.Errorf("%v\n%s", err, text)
	}
}

// erase runs the operators' command that erases an owner's orders, and repeats it until all copies are deleted. all is
// the number of orders that the first run must erase.
func (g *gallery) erase(all int) {
	g.Helper()
	text, err := g.runEasel("erase", "--owner", "studio")
	if !strings.Contains(text, fmt.Sprint(all, " orders are erased")) {
		g.Fatalf("%v\n%s", err, text)
	}
	for end := time.Now().Add(healedWithin); err != nil; { // the command waits at most a minute for the deletions, and then reports the remaining copies
		if time.Now().After(end) || !strings.Contains(text, "copies are still to be deleted") {
			g.Fatalf("%v\n%s", err, text)
		}
		text, err = g.runEasel("erase", "--owner", "studio")
	}
	g.awaitObjects(0)
	if rows := g.count(`SELECT COUNT(*) FROM contents`); rows != 0 {
		g.Errorf("%d rows of copies remain", rows)
	}
	if dump := g.postgres.Dump(g.T, g.ledger); bytes.Contains(dump, []byte(`"result `)) {
		g.Error("the ledger still contains a prompt")
	}
}

// runEasel runs the program with the given arguments, the servers' settings, and the admin address of the first
// replica. It returns the program's output.
func (g *gallery) runEasel(args ...string) (text string, err error) {
	g.Helper()
	command := exec.CommandContext(g.Context(), proctest.Easel(g.T), args...)
	command.Env = proctest.Environ(g.settings.With(proctest.Settings{"EASEL_ADMIN_ADDR": g.replicas[0].Admin}))
	out, err := command.CombinedOutput()
	return string(out), err
}
