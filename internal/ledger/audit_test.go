package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

var ada = ledger.By{Actor: "ada", Origin: "192.0.2.7"}

// auditOf returns each entry of a ledger's audit trail as a short string.
func auditOf(t *testing.T, l *ledger.Ledger) (lines []string) {
	t.Helper()
	all, err := l.AuditLines(t.Context(), ledger.Position{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.Time.IsZero() || !strings.HasPrefix(a.ID, "aud_") {
			t.Errorf("audit entry without a time or a valid ID: %+v", a)
		}
		lines = append(lines, strings.Join([]string{a.Actor, a.Origin, string(a.Action), a.Subject, a.Was, a.Became}, " "))
	}
	return lines
}

// makeStale sets the times of a ledger's orders back by the length of the resend window, and ends their leases.
func makeStale(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	l.Exec(t, "UPDATE orders SET leased_until = 0, order_time = order_time - 43200000000")
}

func TestOperatorActionsAreAuditedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var mu sync.Mutex
		var told []string
		l := openWith(t, ledger.Config{URL: url, Events: retentionConfig(0), Audited: func(_ context.Context, a ledger.AuditLine) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, string(a.Action))
		}})
		o := write(t, l, request("k"))
		conclude(t, l, o, lifecycle.Uncertain, "")
		makeStale(t, l)
		for _, said := range []ledger.Resolution{{By: ada}, {By: ada, Generation: "g1", Forced: true}} {
			resolve(t, l, o, theAPIKey, said)
		}
		observe(t, l, "g1", lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9)})
		l.Exec(t, "UPDATE events SET state = 1")
		since := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
		for range 2 { // the second replay finds no event to deliver again, and adds no line to the audit log
			if _, _, err := l.Replay(t.Context(), ledger.EventFilter{Owner: "studio", Since: since}, ledger.EventPosition{}, ada); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Audit(t.Context(), ledger.Act{By: ada, Action: ledger.ActFetch, Became: "copied"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := l.EraseFor(t.Context(), &ledger.Act{By: ada, Action: ledger.ActErase, Became: "studio's"}, orderOfGeneration(t, l, "g1")); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{
			"ada 192.0.2.7 order.resolve " + o.ID + ` {"owner":"studio","state":"unknown"} {"owner":"studio","state":"refused"}`,
			"ada 192.0.2.7 order.resolve " + o.ID + ` {"owner":"studio","state":"refused"} {"owner":"studio","state":"placed","generation":"g1","forced":true}`,
			`ada 192.0.2.7 events.replay studio  {"since":"2026-01-31T12:00:00Z","events":1}`,
			`ada 192.0.2.7 content.fetch   "copied"`,
			`ada 192.0.2.7 order.erase   {"wanted":"studio's","erased":1,"orders":{"studio":["` + o.ID + `"]}}`,
		}
		if got := auditOf(t, l); !slices.Equal(got, want) {
			t.Errorf("the audit trail is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(told, " "); got != "order.resolve order.resolve events.replay content.fetch order.erase" {
			t.Errorf("Audited received the actions %s", got)
		}
	})
}

// Another process may erase some of the listed orders first. The audit trail must name only the orders that this call
// erased.
func TestErasureAuditListsOnlyErasedOrders(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l, ids := open(t, url), map[string]string{}
		for _, generation := range []string{"g1", "g2"} {
			o := write(t, l, request(generation))
			conclude(t, l, o, lifecycle.Named, generation)
			observe(t, l, generation, lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9)})
			ids[generation] = o.ID
		}
		all := []ledger.Order{orderOfGeneration(t, l, "g1"), orderOfGeneration(t, l, "g2")}
		if _, err := l.Erase(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := l.EraseFor(t.Context(), &ledger.Act{By: ada, Action: ledger.ActErase, Became: "studio's"}, all...); err != nil {
			t.Fatal(err)
		}
		want := []string{`ada 192.0.2.7 order.erase   {"wanted":"studio's","erased":1,"orders":{"studio":["` + ids["g2"] + `"]}}`}
		if got := auditOf(t, l); !slices.Equal(got, want) {
			t.Errorf("the audit trail is %q, want %q", got, want)
		}
	})
}

func TestActionIsRolledBackIfAuditFails(t *testing.T) {
	refuse := map[bool]string{ // statements that make the database reject audit entries, for SQLite (true) and PostgreSQL (false)
		true:  "CREATE TRIGGER none BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no line'); END",
		false: "ALTER TABLE audit ADD CONSTRAINT none CHECK (actor = '')",
	}
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		o, other := write(t, l, request("k")), write(t, l, request("other"))
		conclude(t, l, o, lifecycle.Uncertain, "")
		conclude(t, l, other, lifecycle.Named, "g2")
		observe(t, l, "g2", lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9)})
		makeStale(t, l)
		l.Exec(t, refuse[!l.IsShared()])
		l.Exec(t, "INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time) VALUES ('e', 'studio', 't', 's', 1, 0, '{}', 1, 1)")
		state := `SELECT (SELECT COUNT(*) FROM orders WHERE state = 1) || ' ' || (SELECT COUNT(*) FROM movements WHERE kind = 5) || ' ' || (SELECT COUNT(*) FROM events WHERE state = 0) || ' ' || (SELECT COUNT(*) FROM orders WHERE erased = 1)`
		before := l.Ask(t, state)
		for name, do := range map[string]func() error{
			"resolve": func() error {
				_, _, err := l.Resolve(t.Context(), o.ID, theAPIKey, ledger.Resolution{By: ada})
				return err
			},
			"replay": func() error {
				_, _, err := l.Replay(t.Context(), ledger.EventFilter{Owner: "studio", Since: time.UnixMicro(0)}, ledger.EventPosition{}, ada)
				return err
			},
			"erase": func() error {
				_, err := l.EraseFor(t.Context(), &ledger.Act{By: ada, Action: ledger.ActErase}, orderOfGeneration(t, l, "g2"))
				return err
			},
			"audit": func() error { return l.Audit(t.Context(), ledger.Act{By: ada, Action: ledger.ActErase}) },
		} {
			if err := do(); err == nil {
				t.Errorf("%s: the change was not rejected", name)
			}
			if after := l.Ask(t, state); after != before || before != "1 0 0 0" {
				t.Errorf("%s: the state is %q before and %q after, want 1 0 0 0", name, before, after)
			}
		}
	})
}

func TestAuditAndJournalAreAppendOnly(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		write(t, l, request("k"))
		if err := l.Audit(t.Context(), ledger.Act{By: ada, Action: ledger.ActErase}); err != nil {
			t.Fatal(err)
		}
		statements := []string{"UPDATE audit SET actor = 'bob'", "DELETE FROM audit", "UPDATE movements SET cents = 1", "DELETE FROM movements"}
		if l.IsShared() {
			statements = append(statements, "TRUNCATE audit")
		} else {
			statements = append(statements, "INSERT OR REPLACE INTO audit SELECT audit_time, id, 'bob', origin, action, subject, was, became FROM audit")
		}
		for _, statement := range statements {
			if err := l.Refuse(t, statement); err == nil || !strings.Contains(err.Error(), "only ever added") {
				t.Errorf("%s: %v", statement, err)
			}
		}
		if got := auditOf(t, l); !slices.Equal(got, []string{"ada 192.0.2.7 order.erase   "}) {
			t.Errorf("the audit trail is %q", got)
		}
	})
}

func TestAuditPagesContainEachEntryOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for n := range 7 {
			if err := l.Audit(t.Context(), ledger.Act{By: ada, Action: ledger.ActDelete, Subject: fmt.Sprint("g", n)}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for at := (ledger.Position{}); ; {
			page, err := l.AuditLines(t.Context(), at, 3)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, a := range page {
				got, at = append(got, a.Subject), ledger.Position{Time: a.Time, ID: a.ID}
			}
		}
		if !slices.Equal(got, []string{"g0", "g1", "g2", "g3", "g4", "g5", "g6"}) {
			t.Errorf("the pages of the audit trail contain %q", got)
		}
	})
}

func TestLedgerCopyAndMigrationAreAudited(t *testing.T) {
	onEach(t, func(t *testing.T, from string) {
		writeLedger(t, from, 3)
		l := open(t, from)
		if err := l.Audit(t.Context(), ledger.Act{By: ada, Action: ledger.ActErase}); err != nil {
			t.Fatal(err)
		}
		closeLedger(t, l)
		to := proctest.Database(t)
		copied := mustCopy(t, from, to)
		if got := auditOf(t, open(t, to)); !slices.Equal(got, []string{"ada 192.0.2.7 order.erase   ", fmt.Sprintf(`ops here ledger.copy   {"rows":%d}`, copied.Rows)}) {
			t.Errorf("the audit trail of the copy is %q", got)
		}
	})
	onEach(t, func(t *testing.T, url string) {
		version, _, err := ledger.Migrate(t.Context(), url, ada)
		if err != nil {
			t.Fatal(err)
		}
		if got := auditOf(t, open(t, url)); !slices.Equal(got, []string{fmt.Sprintf(`ada 192.0.2.7 ledger.migrate  {"schema":0} {"schema":%d}`, version)}) {
			t.Errorf("the audit trail is %q", got)
		}
	})
}
