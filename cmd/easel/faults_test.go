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
// their input, X for keys and certificates, A for attackers and wrong statements about money, M for money, T for
// teams with one API key, S for the sandbox.
var faults = []fault{
	{id: "U1", what: "the catalog refuses connections or has no address", proof: "few retries, watches stay open, requests are counted"},
	{id: "U2", what: "it accepts and never answers", proof: "a call ends with its deadline"},
	{id: "U3", what: "it sends a byte a second", proof: "bodies have a limit of idle time, and goroutines end"},
	{id: "U4", what: "it fails with a page of HTML", proof: "the status decides, and no markup comes through"},
	{id: "U5", what: "it asks for a pause", proof: "no poll of that key falls into the pause"},
	{id: "U6", what: "it asks for a pause of no time, of years, or of nonsense", proof: "the reader of the header, fuzzed, and the cap of a pause"},
	{id: "U7", what: "it rejects the key that the server holds", proof: "callers get INTERNAL, watches stay, one probe a minute"},
	{id: "U8", what: "the balance is too low", proof: "one attempt, and a precondition that fails"},
	{id: "U9", what: "the daily cap of the key is reached", proof: "one attempt; polls and downloads continue"},
	{id: "U10", what: "a render that lives is not found", proof: "a grace after our own order, then deletion is delivered once"},
	{id: "U11", what: "unknown statuses, members, codes and types", proof: "a tolerant reader, fuzzed; only known states end a watch"},
	{id: "U12", what: "an order is answered without an id", proof: "the same key again; one charge"},
	{id: "U13", what: "a state goes backwards", proof: "watchers never see it; a refund is delivered"},
	{id: "U14", what: "an order is taken and its answer is lost", proof: "the same key again; one charge, the same render"},
	{id: "U15", what: "an order is still being taken while we ask again", proof: "as a lost answer"},
	{id: "U16", what: "the bytes of a result are cut, short, or other ones", proof: "resumed or refused; never taken for the whole"},
	{id: "U17", what: "it redirects, wherever to", proof: "forty targets, and the key arrives at none"},
	{id: "U18", what: "an answer without end, or one that grows when it is unpacked", proof: "a limit for each kind of answer, and memory is measured"},
	{id: "U19", what: "an outage of minutes under many watches", proof: "the rate after it is the configured one"},
	{id: "U20", what: "the price moves between quote and order", proof: "a limit is held against a fresh quote; the charge is reported as charged"},
	{id: "U21", what: "a render stays queued for ever", proof: "nothing ends it; polls become rare, heartbeats continue"},
	{id: "U22", what: "it repeats the key", proof: "the key is taken out of errors and records"},

	{id: "K1", what: "killed before the order is sent", proof: "the caller sends its key again: one charge, one id"},
	{id: "K2", what: "killed while the order is written", proof: "as K1"},
	{id: "K3", what: "killed after the catalog has taken the order", proof: "as K1"},
	{id: "K4", what: "killed after the answer", proof: "as K1"},
	{id: "K5", what: "killed before the caller hears", proof: "as K1"},
	{id: "K6", what: "killed after the caller has heard", proof: "as K1"},
	{id: "K7", what: "a caller leaves in the middle of its order", proof: "the order is finished; the same key finds it"},
	{id: "K8", what: "the same key twice at once", proof: "one submission"},

	{id: "N1", what: "packets to the catalog vanish", proof: "as a catalog that never answers; the connection is given up"},
	{id: "N2", what: "a client vanishes without a word", proof: "its streams are freed within 45 s"},
	{id: "N3", what: "a proxy cuts what is silent for a minute", proof: "heartbeats keep it open"},
	{id: "N4", what: "a stop with thousands of watches", proof: "each gets the notice, and the exit comes within 10 s"},
	{id: "N5", what: "the collector of telemetry is dead or slow", proof: "calls are as fast, memory stays, the exit comes in time"},

	{id: "C1", what: "the wall clock jumps by a day", proof: "no storm, and nothing ends early"},
	{id: "C2", what: "the process is stopped for minutes and continues", proof: "no old state is delivered as new, and no storm"},

	{id: "L1", what: "a client that never reads", proof: "ended after 30 s; little memory; others are as fast"},
	{id: "L2", what: "a client that reads slowly", proof: "it misses states and never the last"},
	{id: "L3", what: "watches opened and cancelled without end", proof: "goroutines and memory are as before"},
	{id: "L4", what: "very many watch one render", proof: "the polls of one"},
	{id: "L5", what: "more streams than a caller may have", proof: "refused at once, never queued"},
	{id: "L6", what: "a watch begins as the state turns terminal", proof: "it never hangs"},
	{id: "L7", what: "a render of another key", proof: "the same answer as for none"},
	{id: "L8", what: "a client that pings every 10 s", proof: "it stays connected"},
	{id: "L9", what: "HTTP/2 abused: resets, endless headers, floods, handshakes that stop", proof: "raw frames against a server: memory bounded, others served"},

	{id: "I1", what: "a message over the limit, packed or not", proof: "refused, and memory is measured"},
	{id: "I2", what: "inputs that readers would not all read alike", proof: "rejected; accepted numbers are forwarded digit for digit, fuzzed"},
	{id: "I3", what: "ids made to lead elsewhere", proof: "refused or escaped; the path is the intended one, fuzzed"},
	{id: "I4", what: "idempotency keys that no header can carry", proof: "refused, and the field is named"},
	{id: "I5", what: "page sizes and page tokens made up", proof: "cut to the limit, or refused, fuzzed"},
	{id: "I6", what: "an error of the catalog too long for trailers", proof: "cut to 4 KiB in all"},

	{id: "X1", what: "the key file changes under load", proof: "the new key is used, the old one stays while it can't be read"},
	{id: "X2", what: "the key file is empty, unreadable or ends with a line break", proof: "one line at the start names it; the line break is no part of the key"},
	{id: "X3", what: "a key in what the process says of itself", proof: "a canary through the whole stack; every log, span, metric, error, dump and answer is searched"},
	{id: "X4", what: "the certificate changes", proof: "no handshake fails"},

	{id: "S1", what: "the sandbox is killed", proof: "its accounts are exact, its renders end"},
	{id: "S2", what: "many writers at once", proof: "none gets an error that the database is locked"},
	{id: "S3", what: "two orders and money for one", proof: "one is refused; the balance is never below 0"},
	{id: "S4", what: "an idempotency key twice at once, or with another body", proof: "one charge; the other body is refused"},

	{id: "A1", what: "a gRPC call without a credential that holds back its message", proof: "refused by its headers"},
	{id: "A2", what: "a REST request without a credential that holds back its body", proof: "refused by its headers"},
	{id: "A4", what: "a thousand streams of a thousand made-up ids, under a rejected API key and under a good one", proof: "a neighbour is served as before, memory is bounded, a stop keeps its time"},
	{id: "A5", what: "watches under API keys that the catalog rejects", proof: "nothing is left of them a second after they have ended"},
	{id: "A6", what: "hundreds of orders of 700 KB", proof: "of each its id, outcome, price and time are kept"},
	{id: "A7", what: "one owner's orders push out what is known of another's", proof: "whoever has the most loses its own oldest"},
	{id: "A8", what: "abandoned orders and unread downloads take all connections to the catalog", proof: "another owner's order and download begin at once; no outage is reported"},
	{id: "A9", what: "a caller is removed while its watch is open", proof: "it ends by the next heartbeat; another caller's continues"},
	{id: "A10", what: "an order is sent again elsewhere, after a restart, or after its own money is gone", proof: "nobody says that it was not ordered, and no advice leads to another order"},
	{id: "A11", what: "a shared API key is rotated between two attempts of one order", proof: "all attempts carry the first one; one charge"},
	{id: "A12", what: "an error repeats a known code in a prompt", proof: "it is not taken for a refusal: codes are read where codes stand"},
	{id: "A13", what: "a client without a certificate where a client CA is set", proof: "refused over gRPC and REST; who has one is served"},
	{id: "A14", what: "a page of another origin, by DNS rebinding, where anybody may call", proof: "its orders are refused; those of this machine's own names are not"},
	{id: "A15", what: "escape sequences and directional overrides in any text of a catalog, a server or a file", proof: "every command, in every form, on a pipe and on a terminal: nothing but their visible form"},
	{id: "A16", what: "stopped replicas remain in the state that the others share", proof: "they count for 30 s, and keep nothing of the rate"},
	{id: "A17", what: "a page of another origin triggers what the admin listener can do", proof: "refused, reads too, and foreign hosts wherever it listens; operators are served"},

	{id: "T1", what: "two owners behind one API key choose one idempotency key", proof: "two orders, each its own answer, after a crash too"},
	{id: "T2", what: "an owner uses another's id, on every RPC and route", proof: "byte for byte the answer for an id that does not exist"},
	{id: "T3", what: "a crash at each step of an order: before and after the POST, its answer and each commit", proof: "one charge at most; known without the caller within a minute"},
	{id: "T4", what: "the ledger is slow, away or full, or a commit is in doubt", proof: "nothing is answered that the ledger does not hold, and nothing is taken back"},
	{id: "T5", what: "parallel orders at the edge of a budget, on several replicas", proof: "never a cent above; all that fits is placed"},
	{id: "T6", what: "a refund that nobody sees", proof: "the ledger has it, and the budget has it back"},
	{id: "T7", what: "the price rises between quote and order", proof: "charged as the catalog says, reported and counted"},
	{id: "T8", what: "the callers file changes, breaks or loses a caller", proof: "in effect within a second; the old one stays; the caller is out"},
	{id: "T9", what: "a replica is stopped in an attempt, another recovers the order, the first continues", proof: "one lease at a time; no id is overwritten; one charge"},
	{id: "T10", what: "the API key is rotated, or the ledger meets another catalog, while orders are unknown", proof: "they stay unknown; nothing is sent under another API key or to another catalog"},
	{id: "T11", what: "the catalog has forgotten an idempotency key", proof: "nothing is sent after the window; an operator resolves it"},
	{id: "T12", what: "the clocks of replicas differ by a day at the edge of a window", proof: "the database's clock decides"},

	{id: "M1", what: "a caller moves to another team while its order is quoted", proof: "one order for each key of a caller; its terms are read again where the order is written"},
	{id: "M2", what: "one call is refused while another places the order", proof: "a refusal is one call's own; the key is asked again before not_placed"},
	{id: "M3", what: "a host vanishes or is stopped within a transaction", proof: "nothing is locked for longer than 10 s; others continue at once"},
	{id: "M4", what: "404 pages, or the API key of another account, for a while", proof: "the rule of absence; life undoes it"},
	{id: "M5", what: "a replica with an older callers file records an end", proof: "its event is delivered by whoever knows the team"},
	{id: "M6", what: "the API key of the replica that settles is revoked", proof: "the work goes to who can do it"},
	{id: "M7", what: "a charge is reported as 0 first and in full later", proof: "the highest counts; the price stays reserved until the end"},
	{id: "M8", what: "one lost attempt, and then refusals", proof: "the reservation ends with the window"},
	{id: "M9", what: "one team's orders always fail", proof: "another team's are recovered in its turn"},
	{id: "M10", what: "a forwarded API key is rotated, and the catalog replays", proof: "its caller gets the id"},
	{id: "M11", what: "the catalog says that the key was used for another order", proof: "an unknown outcome"},
	{id: "M12", what: "a process is stopped between its lease and the POST", proof: "nothing leaves after the window"},
	{id: "M13", what: "a refund after the refund window", proof: "seen within a day, for 30 days"},
	{id: "M14", what: "a database with another isolation or order of texts", proof: "as on a default one"},
	{id: "M15", what: "U+0000 in a label; an id that nobody could name again", proof: "bad input; an unknown outcome"},
	{id: "M16", what: "the expire time of an order passes while it waits for a permit, is retried or is left by a dead process", proof: "nothing leaves after it; an order that was never sent releases its price"},
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
		t.Errorf("%q name the fault %s, which is not in the list", named, id)
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
