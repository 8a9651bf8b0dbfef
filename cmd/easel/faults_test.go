package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fault is an entry in the list of faults. A test that covers a fault names the fault's ID in the comment above the test
// or on the test's first line.
type fault struct {
	id, what, proof string
}

// faults lists all faults that the tests must cover. The first letter of an ID is the kind of fault: U for the
// upstream catalog, K for kills and calls that end early, N for the network, C for clocks, L and I for clients and
// their input, X for keys and certificates, A for abuse and misleading responses, M for money, T for teams with one
// API key, S for the sandbox.
var faults = []fault{
	{id: "U1", what: "the catalog refuses connections, or its host name has no address", proof: "few retries; watches stay open; requests are counted"},
	{id: "U2", what: "the catalog accepts connections and never responds", proof: "each call ends at its deadline"},
	{id: "U3", what: "the catalog sends one byte per second", proof: "reading a body has an idle timeout; goroutines end"},
	{id: "U4", what: "the catalog fails with an HTML page", proof: "the status code decides; no HTML is forwarded"},
	{id: "U5", what: "the catalog requests a pause", proof: "no poll with that API key during the pause"},
	{id: "U6", what: "the requested pause is zero, years long or unreadable", proof: "fuzzed header parser; maximum length of a pause"},
	{id: "U7", what: "the catalog rejects the server's API key", proof: "callers get INTERNAL; watches stay open; one probe a minute"},
	{id: "U8", what: "the balance is too low", proof: "one attempt; FAILED_PRECONDITION"},
	{id: "U9", what: "the API key has reached its daily cap", proof: "one attempt; polls and downloads continue"},
	{id: "U10", what: "an existing render is not found", proof: "a new render has a grace period; then its deletion is delivered once"},
	{id: "U11", what: "statuses, members, error codes and types are unknown", proof: "fuzzed tolerant parser; only known final states end a watch"},
	{id: "U12", what: "a successful response to an order has no ID", proof: "resent with the same idempotency key; one charge"},
	{id: "U13", what: "a state goes backwards", proof: "watchers never see it; a refund is delivered"},
	{id: "U14", what: "an order is accepted and the response is lost", proof: "resent with the same idempotency key; one charge, the same render"},
	{id: "U15", what: "a resend arrives while the catalog still processes the order", proof: "same as for a lost response"},
	{id: "U16", what: "a download is interrupted, too short or has different bytes", proof: "the download resumes or fails; it is never reported as complete"},
	{id: "U17", what: "the catalog redirects requests", proof: "40 targets; none receives the API key"},
	{id: "U18", what: "a response never ends, or expands when decompressed", proof: "a limit for each kind of response; memory is measured"},
	{id: "U19", what: "an outage of several minutes with many watches", proof: "afterwards, the request rate stays within its setting"},
	{id: "U20", what: "the price changes between quote and order", proof: "the price limit is compared with a new quote; the actual charge is reported"},
	{id: "U21", what: "a render stays queued forever", proof: "it is never reported as finished; polls become rare; heartbeats continue"},
	{id: "U22", what: "a response repeats the API key", proof: "the key is removed from errors and records"},

	{id: "K1", what: "killed before the order is sent", proof: "the caller repeats the order with its idempotency key: one charge, one ID"},
	{id: "K2", what: "killed while the order is sent", proof: "see K1"},
	{id: "K3", what: "killed after the catalog has accepted the order", proof: "see K1"},
	{id: "K4", what: "killed after the catalog's response has arrived", proof: "see K1"},
	{id: "K5", what: "killed before the caller gets the response", proof: "see K1"},
	{id: "K6", what: "killed after the caller has got the response", proof: "see K1"},
	{id: "K7", what: "a caller cancels its call during the order", proof: "the order is completed; a call with the same idempotency key returns it"},
	{id: "K8", what: "concurrent calls with the same idempotency key", proof: "one submission"},

	{id: "N1", what: "packets to the catalog are lost", proof: "same as for a catalog that never responds; the connection is closed"},
	{id: "N2", what: "a client disappears without closing its connection", proof: "its streams are released within 45 s"},
	{id: "N3", what: "a proxy closes connections that are silent for a minute", proof: "heartbeats keep the connection open"},
	{id: "N4", what: "the server stops with thousands of watches", proof: "each watch gets a closing message; the process exits within 10 s"},
	{id: "N5", what: "the telemetry collector is down or slow", proof: "latency and memory are unchanged; the process exits in time"},

	{id: "C1", what: "the wall clock jumps by a day", proof: "no burst of requests; nothing expires early"},
	{id: "C2", what: "the process is suspended for minutes and resumes", proof: "no old state is delivered as new; no burst of requests"},

	{id: "L1", what: "a client never reads its stream", proof: "the stream ends after 30 s; it uses little memory; other callers are not slower"},
	{id: "L2", what: "a client reads slowly", proof: "it misses states, but never the final one"},
	{id: "L3", what: "watches are continually opened and canceled", proof: "goroutines and memory return to their initial level"},
	{id: "L4", what: "very many watches of one render", proof: "as many polls as for one watch"},
	{id: "L5", what: "a caller opens more streams than its limit", proof: "rejected immediately, never queued"},
	{id: "L6", what: "a watch begins while the state becomes final", proof: "the watch never hangs"},
	{id: "L7", what: "a call for a render of another API key", proof: "the same response as for an unknown ID"},
	{id: "L8", what: "a client sends a ping every 10 s", proof: "it stays connected"},
	{id: "L9", what: "HTTP/2 attacks: resets, endless headers, floods, incomplete handshakes", proof: "raw frames against a server: memory is bounded; other clients are served"},

	{id: "I1", what: "a message above the size limit, compressed or not", proof: "rejected; memory is measured"},
	{id: "I2", what: "inputs that different parsers would read differently", proof: "rejected; accepted numbers keep each digit, fuzzed"},
	{id: "I3", what: "IDs that could change the path of a request", proof: "rejected or escaped; the path is the intended one, fuzzed"},
	{id: "I4", what: "idempotency keys that a header can't contain", proof: "rejected; the error names the field"},
	{id: "I5", what: "invalid page sizes and page tokens", proof: "lowered to the maximum, or rejected, fuzzed"},
	{id: "I6", what: "an error of the catalog is too long for trailers", proof: "truncated to 4 KiB in total"},

	{id: "X1", what: "the API key file changes under load", proof: "the new key is used; while the file is unreadable, the old key is used"},
	{id: "X2", what: "the API key file is empty, unreadable or ends with a line break", proof: "one line at startup names the file; the line break is ignored"},
	{id: "X3", what: "the process prints an API key", proof: "every log, span, metric, error, dump and response is searched for a test key"},
	{id: "X4", what: "the certificate changes", proof: "no handshake fails"},

	{id: "S1", what: "the sandbox is killed", proof: "its balances stay exact; its renders finish"},
	{id: "S2", what: "many concurrent writers", proof: "no caller gets the error that the database is locked"},
	{id: "S3", what: "two orders, and a balance for only one", proof: "one is rejected; the balance is never below 0"},
	{id: "S4", what: "an idempotency key in concurrent requests, or with another body", proof: "one charge; the other body is rejected"},

	{id: "A1", what: "a gRPC call without credentials delays its message", proof: "rejected after its headers"},
	{id: "A2", what: "a REST request without credentials delays its body", proof: "rejected after its headers"},
	{id: "A4", what: "1,000 streams with 1,000 invented IDs each, under a rejected and under a valid API key", proof: "another caller's latency is unchanged; memory is bounded; the server stops in time"},
	{id: "A5", what: "watches under API keys that the catalog rejects", proof: "they leave no state a second after they have ended"},
	{id: "A6", what: "hundreds of orders of 700 KB", proof: "of each order, only its ID, outcome, price and time are kept"},
	{id: "A7", what: "one owner's orders displace the stored orders of others", proof: "the owner with the most orders loses its own oldest ones"},
	{id: "A8", what: "abandoned orders and unread downloads occupy all connections to the catalog", proof: "another owner's order and download start immediately; no outage is reported"},
	{id: "A9", what: "a caller is removed while its watch is open", proof: "the watch ends by the next heartbeat; another caller's watch continues"},
	{id: "A10", what: "an order is resent by another replica, after a restart, or after it has used up the balance", proof: "no response reports it as not placed; no advice leads to a second order"},
	{id: "A11", what: "a shared API key is rotated between two attempts of one order", proof: "all attempts use the first key; one charge"},
	{id: "A12", what: "an error message repeats a known code from a prompt", proof: "not treated as a rejection, because codes are read only from members for codes"},
	{id: "A13", what: "a client has no certificate, although a client CA is configured", proof: "rejected over gRPC and REST; a client with a certificate is served"},
	{id: "A14", what: "a page of another origin uses DNS rebinding to send orders to a server with anonymous callers", proof: "its orders are rejected; requests to the machine's own names are served"},
	{id: "A15", what: "escape sequences and directional overrides in strings of a catalog, a server or a file", proof: "every command and output format, in pipes and terminals, prints only their visible form"},
	{id: "A16", what: "stopped replicas remain in the shared state", proof: "they count for 30 s; afterwards, they have no share of the poll rate"},
	{id: "A17", what: "a page of another origin sends requests to the admin listener", proof: "rejected, also for reads and for unknown hosts; operators are served"},

	{id: "T1", what: "two owners with one API key choose the same idempotency key", proof: "two orders with separate responses, also after a crash"},
	{id: "T2", what: "an owner uses another owner's render ID, for every RPC and route", proof: "the same bytes as for an unknown ID"},
	{id: "T3", what: "a crash at each step of an order: before and after the POST, its response and each commit", proof: "at most one charge; without the caller, the outcome is known within a minute"},
	{id: "T4", what: "the ledger is slow, unavailable or full, or the result of a commit is unknown", proof: "each response agrees with the ledger; no outcome is revoked"},
	{id: "T5", what: "concurrent orders at the limit of a budget, on several replicas", proof: "the limit is never exceeded; each order that fits is placed"},
	{id: "T6", what: "a refund, while no caller watches", proof: "the ledger records it, and the render no longer counts toward the budget"},
	{id: "T7", what: "the price rises between quote and order", proof: "the catalog's charge is recorded, reported and counted"},
	{id: "T8", what: "the callers file changes, becomes invalid or loses a caller", proof: "applied within a second; the previous content stays valid; the caller is rejected"},
	{id: "T9", what: "a replica is suspended during an attempt, another recovers the order, the first resumes", proof: "one lease at a time; no ID is overwritten; one charge"},
	{id: "T10", what: "while orders are unknown, the API key is rotated or the ledger is used with another catalog", proof: "they stay unknown; nothing is sent with another API key or to another catalog"},
	{id: "T11", what: "the catalog no longer remembers an idempotency key", proof: "nothing is sent after the resend window; an operator resolves the order"},
	{id: "T12", what: "the clocks of replicas differ by a day at the end of a window", proof: "the database's clock decides"},

	{id: "M1", what: "a caller moves to another team while its order is quoted", proof: "one order for each idempotency key of a caller; its settings are read again when the order is written"},
	{id: "M2", what: "one call is rejected while another places the order", proof: "the rejection applies to one call only; before a call returns not_placed, the ledger is read again"},
	{id: "M3", what: "a host disappears or is suspended during a transaction", proof: "no lock lasts longer than 10 s; other orders continue immediately"},
	{id: "M4", what: "for a while, the catalog returns 404, or the API key belongs to another account", proof: "an absence counts only after a minute; a later response revokes it"},
	{id: "M5", what: "a replica with an older callers file records a final state", proof: "a replica that knows the team delivers the event"},
	{id: "M6", what: "the API key of the replica that settles orders is revoked", proof: "a replica with a valid API key continues"},
	{id: "M7", what: "a charge is first reported as 0, and later in full", proof: "the highest charge counts; the price stays reserved until the render is finished"},
	{id: "M8", what: "a lost attempt, followed by rejections", proof: "the price is reserved until the end of the resend window"},
	{id: "M9", what: "all orders of one team fail", proof: "orders of other teams are recovered in turn"},
	{id: "M10", what: "a forwarded API key is rotated, and the catalog returns an earlier render", proof: "its caller gets the ID"},
	{id: "M11", what: "the catalog reports that the idempotency key belongs to another order", proof: "an unknown outcome"},
	{id: "M12", what: "a process is suspended after it acquires a lease and before the POST", proof: "nothing is sent after the resend window"},
	{id: "M13", what: "a refund after the refund window", proof: "recorded within a day, for 30 days"},
	{id: "M14", what: "a database with another isolation level or sort order", proof: "the same results as with the defaults"},
	{id: "M15", what: "U+0000 in a label, or a render ID that no later request could contain", proof: "invalid input; an unknown outcome"},
	{id: "M16", what: "an order expires while it waits for a permit, is retried, or is left by a dead process", proof: "nothing is sent afterwards; an order that was never sent releases its price"},
}

func TestEveryFaultHasATestThatNamesIt(t *testing.T) {
	tests := testsByFault(t)
	for _, f := range faults {
		if f.what == "" || f.proof == "" || len(tests[f.id]) == 0 {
			t.Errorf("%s (%s) lacks a description, a proof or a test", f.id, f.what)
		}
		delete(tests, f.id)
	}
	for id, named := range tests {
		t.Errorf("the tests %q name the fault %s, which is not in the list", named, id)
	}
}

var faultID = regexp.MustCompile(`\b[UKNCLIXSATM][1-9][0-9]?\b`)

// testsByFault maps each fault ID to the names of the tests whose comments contain it.
func testsByFault(t *testing.T) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	eachTest(t, func(name, comment string) {
		for _, id := range faultID.FindAllString(comment, -1) {
			tests[id] = append(tests[id], name)
		}
	})
	return tests
}

// allTests returns the names of all tests in the repository.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	eachTest(t, func(name, _ string) { names[name] = true })
	return names
}

// eachTest calls visit for each test in the repository, with the test's name and its comments: see [commentedTests].
func eachTest(t *testing.T, visit func(name, comment string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for name, comment := range commentedTests(files, file) {
			visit(name, comment)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// commentedTests maps the name of each test in a file to its comments: the comment above the test, followed by the
// comment on its first line.
func commentedTests(files *token.FileSet, file *ast.File) map[string]string {
	behind := map[int]string{}
	for _, group := range file.Comments {
		behind[files.Position(group.Pos()).Line] = group.Text()
	}
	tests := map[string]string{}
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		tests[f.Name.Name] = f.Doc.Text() + " " + behind[files.Position(f.Body.Lbrace).Line]
	}
	return tests
}
