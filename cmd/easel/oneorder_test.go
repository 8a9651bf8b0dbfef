package main

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

var oneOrder = flag.Bool("one-order", false, "count the files and functions that one order uses: make one-order")

// Maximum numbers of Easel's files and functions that one CreateGeneration call may use. The long-term goals are 50
// files and 220 functions.
const (
	mostFiles     = 74
	mostFunctions = 338
)

// TestOneOrderRunsLimitedNumberOfFunctions limits the number of Easel's files and functions that run for every
// CreateGeneration call, because a reader has to know all of them to understand an order. It counts how often a process
// executes each block of code for 1 order, and for 101 orders. If the difference is at least 100, the block runs for
// every order.
func TestOneOrderRunsLimitedNumberOfFunctions(t *testing.T) {
	if !*oneOrder {
		t.Skip("make one-order builds the program and runs this test")
	}
	program := filepath.Join(t.TempDir(), "easel")
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/easel-grpc/easel/...", "-o", program, ".")
	proctest.Run(t, build)
	const more = 100
	once, often := blocksOf(t, program, 1), blocksOf(t, program, 1+more)
	lines := []string{"mode: set"}
	for block, count := range often {
		if count-once[block] >= more {
			lines = append(lines, block+" 1")
		}
	}
	profile := proctest.File(t, strings.Join(lines, "\n")+"\n")
	files, functions := functionsOf(t, profile)
	t.Logf("one CreateGeneration call uses %d files and %d functions:\n%s", len(files), len(functions), strings.Join(functions, "\n"))
	if len(files) > mostFiles || len(functions) > mostFunctions || len(functions) < 20 {
		t.Errorf("%d files and %d functions; the maximum is %d and %d", len(files), len(functions), mostFiles, mostFunctions)
	}
}

// blocksOf starts a process and sends it the given number of orders. It returns the number of times that each
// block of code was executed, keyed by the block's position and statement count.
func blocksOf(t *testing.T, program string, orders int) map[string]int {
	t.Helper()
	box, err := startCatalog(t.Context(), "127.0.0.1:0", sandbox.Config{Seed: 1, Speed: 1e-3}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer box.close(t.Context())
	key, err := box.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1000})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := proctest.TryLaunch(t, program, proctest.Settings{"GOCOVERDIR": dir, "EASEL_UPSTREAM_URL": box.baseURL()}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	conn := proctest.Dial(t, p.GRPC)
	for n := range orders {
		ctx := proctest.Bearing(t.Context(), key)
		if _, err := easelv1.NewGenerationServiceClient(conn).CreateGeneration(ctx, &easelv1.CreateGenerationRequest{
			ModelId: "studio/haiku", InputsJson: `{"prompt":"rain"}`, IdempotencyKey: fmt.Sprint("order-", n), Labels: map[string]string{"job": "a"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if code := p.Stop(); code != 0 {
		t.Fatal("the server exited with ", code)
	}
	text := filepath.Join(dir, "text")
	proctest.Run(t, exec.CommandContext(t.Context(), "go", "tool", "covdata", "textfmt", "-i", dir, "-o", text))
	return readBlocks(t, text)
}

func readBlocks(t *testing.T, path string) map[string]int {
	t.Helper()
	blocks := map[string]int{}
	for line := range strings.Lines(proctest.Read(t, path)) {
		at, count := "", 0
		statements := 0
		if n, _ := fmt.Sscan(line, &at, &statements, &count); n == 3 { // skips the first line, which is the coverage mode
			blocks[fmt.Sprint(at, " ", statements)] += count
		}
	}
	return blocks
}

// functionsOf returns Easel's files and functions that were executed according to a coverage profile. It omits generated
// code.
func functionsOf(t *testing.T, profile string) (files, functions []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "cover", "-func", profile).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // example: module/file.go:12: function 50.0%
		if len(fields) != 3 || fields[2] == "0.0%" || fields[0] == "total:" {
			continue
		}
		at := strings.TrimPrefix(fields[0], "github.com/easel-grpc/easel/")
		if strings.HasPrefix(at, "gen/") {
			continue
		}
		functions = append(functions, at+" "+fields[1])
		files = append(files, strings.Split(at, ":")[0])
	}
	slices.Sort(files)
	return slices.Compact(files), functions
}
