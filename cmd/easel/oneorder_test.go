package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

var oneOrder = flag.Bool("one-order", false, "count what one order runs through: make one-order")

// Maximum numbers of Easel's files and functions that one CreateGeneration may use. The goals are 50 and 220.
const (
	mostFiles     = 74
	mostFunctions = 338
)

// TestOneOrderRunsThroughLittle counts Easel's files and functions that run for every CreateGeneration, because a
// reader has to know them to understand an order. It compares the coverage of a process that received one order with
// the coverage of a process that received 101 orders. In the second process, code that runs for every order is
// executed at least 100 times more.
func TestOneOrderRunsThroughLittle(t *testing.T) {
	if !*oneOrder {
		t.Skip("make one-order builds the program and runs this test")
	}
	program := filepath.Join(t.TempDir(), "easel")
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/easel-grpc/easel/...", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const more = 100
	once, often := blocksOf(t, program, 1), blocksOf(t, program, 1+more)
	profile := filepath.Join(t.TempDir(), "profile")
	lines := []string{"mode: set"}
	for block, count := range often {
		if count-once[block] >= more {
			lines = append(lines, block+" 1")
		}
	}
	if err := os.WriteFile(profile, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, functions := functionsOf(t, profile)
	t.Logf("one CreateGeneration runs through %d files and %d functions:\n%s", len(files), len(functions), strings.Join(functions, "\n"))
	if len(files) > mostFiles || len(functions) > mostFunctions || len(functions) < 20 {
		t.Errorf("%d files and %d functions; the maximum is %d and %d", len(files), len(functions), mostFiles, mostFunctions)
	}
}

// blocksOf returns the number of executions of each block of code in a process that received the given number of orders.
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
	p := proctest.Start(t, append(os.Environ(), "GOCOVERDIR="+dir, "EASEL_UPSTREAM_URL="+box.baseURL(),
		"EASEL_GRPC_ADDR=127.0.0.1:0", "EASEL_HTTP_ADDR=127.0.0.1:0", "EASEL_ADMIN_ADDR=127.0.0.1:0"), program, "serve")
	logged := ""
	p.Ready(t, func(_, stderr string) bool { logged = stderr; return strings.Count(stderr, `"listening"`) == 3 })
	conn, err := grpc.NewClient(proctest.Find(t, `"server":"grpc","addr":"([^"]+)"`, logged), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for n := range orders {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
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
	if out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "textfmt", "-i", dir, "-o", text).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return readBlocks(t, text)
}

func readBlocks(t *testing.T, path string) map[string]int {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	blocks := map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		at, count := "", 0
		statements := 0
		if n, _ := fmt.Sscan(lines.Text(), &at, &statements, &count); n == 3 { // the first line is the coverage mode
			blocks[fmt.Sprint(at, " ", statements)] += count
		}
	}
	return blocks
}

// functionsOf returns Easel's files and functions in a coverage profile, without generated code.
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
