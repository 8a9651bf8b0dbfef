package server_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/service"
)

// The contract's limits on requests and responses. The table in docs/limits.md and the tests of the limits use them.
const (
	inputsLimit  = service.DefaultMaxInputs
	depthLimit   = 64
	valuesLimit  = 20_000
	answerLimit  = 4 << 20
	idLimit      = 256
	keyLimit     = 255
	tokenLimit   = 1024
	pageLimit    = 1000
	idsLimit     = 1000
	waitLimit    = 10 * time.Minute
	labelsLimit  = 16
	nameLimit    = 63
	valueLimit   = 256
	slowestPulse = time.Minute
	fastestPulse = time.Second
)

// limit is a row of the table in docs/limits.md, with the names of the tests that probe it.
type limit struct {
	name, value, past string
	tests             []string
}

const invalid = "`INVALID_ARGUMENT` `INVALID_REQUEST`"

// limits returns the rows of the table in docs/limits.md, in the table's order.
func limits() []limit {
	return []limit{
		{
			"a request: a gRPC message, the body of a REST request", inBytes(server.MessageBytes) + ": 256 KiB more than `inputs`", "`RESOURCE_EXHAUSTED` from the gRPC library; REST 413",
			[]string{"TestMessagesAboveSizeLimitAreRejected"},
		},
		{"the headers of a request", inBytes(server.HeaderBytes), "`INTERNAL` from Go's gRPC library, which does not send the call; REST 431", []string{"TestHeadersAboveSizeLimitAreRejected"}},
		{"`inputs` as JSON", inBytes(inputsLimit) + " (`EASEL_MAX_INPUTS`)", invalid, []string{"TestMaxInputsSettingLimitsInputs"}},
		{
			"levels of nesting in `inputs`; number of values in `inputs` (no limit in `inputs_json`)", fmt.Sprintf("%d; %s", depthLimit, number(valuesLimit)), invalid,
			[]string{"TestRequestsAboveLimitsAreRejected"},
		},
		{
			"a response message", inBytes(answerLimit), "large fields are omitted; `omitted_fields` names them",
			[]string{"TestOversizedGenerationOmitsLargeFields", "TestOversizedModelOmitsLargeFields", "TestPageEndsBeforeResponseBecomesTooLarge"},
		},
		{
			"watches, waits and downloads of a caller (`EASEL_CALLER_STREAMS`)", number(server.CallerStreams), "`STREAM_QUOTA_EXCEEDED`, REST 429",
			[]string{"TestStreamAboveQuotaIsRejectedImmediately"},
		},
		{"watches, waits and downloads of all callers (`EASEL_MAX_STREAMS`)", number(server.AllStreams), "`OVERLOADED`, REST 429", []string{"TestStreamAboveQuotaIsRejectedImmediately"}},
		{"`generation_ids` in all watches of a caller", number(server.CallerWatched), "`STREAM_QUOTA_EXCEEDED`, REST 429", []string{"TestGenerationsWatchedByOneCallerAreLimited"}},
		{"other calls of a caller (`EASEL_CALLER_CALLS`)", number(server.CallerCalls), "`OVERLOADED`, REST 429", []string{"TestCallAboveConcurrencyLimitIsRejectedImmediately"}},
		{"other calls of all callers (`EASEL_MAX_CALLS`)", number(server.AllCalls), "`OVERLOADED`, REST 429", []string{"TestCallAboveConcurrencyLimitIsRejectedImmediately"}},
		{"connections of the gRPC and of the HTTP address (`EASEL_MAX_CONNS`)", number(server.Conns), "further connections wait", []string{"TestListenersHaveALimitOfConnections"}},
		{"calls on one gRPC connection", number(int(server.StreamsPerConn)), "the client's gRPC library delays further calls", []string{"TestCallAboveConnectionStreamLimitWaits"}},
		{
			"time for a TLS handshake, and for receiving the headers or the body of a REST request", long(server.HandshakeTimeout), "the connection is closed; REST 408 for a body",
			[]string{"TestIncompleteTLSHandshakeTimesOut", "TestConnectionWithIncompleteHeadersIsClosed", "TestConnectionWithIncompleteBodyIsClosed", "TestSlowAndIdleConnectionsStayOpenUntilTimeout"},
		},
		{
			"time in which a caller reads nothing from a stream", long(server.WriteTimeout) + "; a download: " + long(service.DefaultDownloadTimeout), "`READER_TOO_SLOW`; REST closes the connection",
			[]string{"TestWatchEndsIfClientDoesNotReadFor30Seconds", "TestStuckDownloadEndsAfterTwoMinutes", "TestRESTDownloadMayStallForUpToTwoMinutes"},
		},
		{"minimum time between two pings of a gRPC client", long(server.PingsMin), "the connection is closed: `too_many_pings`", []string{"TestTooFrequentPingsCloseConnection"}},
		{"age of a gRPC connection", long(server.ConnAge), "the client is asked to open a new connection; open calls continue", []string{"TestOldConnectionIsReplacedWhileItsStreamsContinue"}},
	}
}

func inBytes(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%v MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func number(n int) string {
	text := fmt.Sprint(n)
	if n >= 1000 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}

func long(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

var update = flag.Bool("update", false, "write the table of limits into docs/limits.md")

func TestDocsHaveTheTableOfLimits(t *testing.T) {
	const beginning, ending = "<!-- The table is made by go test ./internal/server -run TableOfLimits -update -->\n", "<!-- end of the table -->\n"
	path := filepath.Join("..", "..", "docs", "limits.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "| | limit | if exceeded |\n|---|---|---|\n"
	for _, l := range limits() {
		want += fmt.Sprintf("| %s | %s | %s |\n", l.name, l.value, l.past)
	}
	head, rest, begins := strings.Cut(string(text), beginning)
	table, tail, ends := strings.Cut(rest, ending)
	switch {
	case !begins || !ends || len(limits()) > 16:
		t.Fatalf("%s has no markers for the table, or the table has too many rows", path)
	case *update:
		if err := os.WriteFile(path, []byte(head+beginning+want+ending+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	case table != want:
		t.Errorf("the table in %s differs; run go test ./internal/server -run TableOfLimits -update", path)
	}
}

func TestEveryLimitHasTests(t *testing.T) {
	known := map[string]bool{}
	for _, dir := range []string{".", "../rest", "../service"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
				known[string(match[1])] = true
			}
		}
	}
	for _, l := range limits() {
		if len(l.tests) == 0 {
			t.Errorf("no test for the limit of %s", l.name)
		}
		for _, name := range l.tests {
			if !known[name] {
				t.Errorf("%s: the test %s does not exist", l.name, name)
			}
		}
	}
}
