package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/terminal"
)

// writeUnknown writes two orders whose outcome is unknown, and returns their IDs. The first order was sent under an
// older API key, so it may not be resent. The second order may be resent.
func writeUnknown(t *testing.T, config ledger.Config, key string) (rotatedID, liveID string) {
	t.Helper()
	led, err := ledger.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer led.Close()
	var ids []string
	for _, secret := range []string{"an older API key", key} {
		o, free, err := led.Write(t.Context(), ledger.Request{
			Namespace: "studio", Owner: "studio", Caller: "poster-service", IdempotencyKey: secret, UpstreamKey: secret, ModelID: "studio/poster", Digest: "d",
			APIKey: catalog.Shared(func() catalog.Secret { return catalog.NewSecret(secret) }).APIKeySum(), PriceCents: 11, Labels: map[string]string{"campaign": secret}, ExpireTime: time.Now().Add(24 * time.Hour),
		})
		if err != nil || !free {
			t.Fatal(free, err)
		}
		if _, err := led.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Uncertain, Problem: "HTTP 402, insufficient balance: no money"}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, o.ID)
	}
	return ids[0], ids[1]
}

func TestLineBreaksInPrintedOrderAreReplaced(t *testing.T) {
	var lines strings.Builder
	printOrder(terminal.NewConsole(&lines, io.Discard, func(string) string { return "" }), admin.Order{ID: "ord_1", State: "placed", Labels: map[string]string{"job": "a\nstate\trefunded\rb"}, Problem: "x\n\nTIME\tMOVEMENT"})
	if got := strings.Count(lines.String(), "\n"); got != 9 || !strings.Contains(lines.String(), "job=a state refunded b\n") {
		t.Errorf("got %d lines, want 9:\n%s", got, lines.String())
	}
}

func TestOperatorResolvesUnknownOrders(t *testing.T) {
	url, upstream := "sqlite:"+filepath.Join(t.TempDir(), "book.db"), catalogOf(t, map[string]string{"gen_1": "studio/poster", "gen_2": "studio/haiku"})
	rotated, live := writeUnknown(t, ledger.Config{URL: url, Catalog: upstream, ResendWindow: 12 * time.Hour}, "key")
	served := startServe(t, map[string]string{
		"EASEL_UPSTREAM_URL": upstream, "EASEL_UPSTREAM_KEY_FILE": proctest.File(t, "key\n"), "EASEL_LEDGER_URL": url, "EASEL_RESEND_WINDOW": "6h",
	})
	env := map[string]string{"EASEL_ADMIN_ADDR": served.addr("admin")}
	run := func(exit int, want string, args ...string) {
		t.Helper()
		got := easelEnv(t.Context(), nil, env, append([]string{"orders"}, args...)...)
		if got.exit != exit || !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("%q: exit %d, printed\n%s%s", args, got.exit, got.stdout, got.stderr)
		}
	}
	run(exitOK, rotated, "list", "--unknown")
	run(exitOK, "HTTP 402, insufficient balance: no money", "list", "--unknown")
	run(exitOK, `"reserved_cents":11`, "list", "--unknown", "-o", "json")
	until, err := time.Parse(time.RFC3339, proctest.Find(t, `"sent_again_until":"([^"]+)"`, easelEnv(t.Context(), nil, env, "orders", "list", "--unknown", "-o", "json").stdout))
	if left := time.Until(until); err != nil || left < 5*time.Hour || left > 6*time.Hour {
		t.Errorf("sent_again_until is in %v, want 5 to 6 hours: %v", left, err)
	}
	run(exitOK, rotated, "list")
	run(exitOK, "Nothing found", "list", "--state", "succeeded")
	run(exitOK, rotated, "list", "--state", "unknown", "--since", "1h", "--label", "campaign=an older API key")
	run(exitOK, "Nothing found", "list", "--label", "campaign=autumn")
	run(exitOK, "Nothing found", "list", "--since", time.Now().Add(time.Hour).Format(time.RFC3339))
	run(exitUsage, "--since: must be", "list", "--since", "yesterday")
	run(exitUsage, `expected "<key>=<value>"`, "list", "--label", "campaign")
	run(exitOK, rotated, "list", "--reserved", "--owner", "studio")
	run(exitOK, "Nothing found", "list", "--reserved", "--owner", "shop")
	run(exitNotFound, "no order, render or idempotency key ord_nowhere", "get", "ord_nowhere")
	run(exitOK, "sent again until", "get", live)
	run(exitOK, "expires           "+time.Now().UTC().Add(24*time.Hour).Format("2006"), "get", live)
	run(exitOK, `"expire_time":"`, "get", live, "-o", "json")
	run(exitUsage, "the order may still be sent again", "resolve", live, "--refused")
	run(exitUsage, "no order, render or idempotency key ord_nowhere", "resolve", "ord_nowhere", "--refused")
	run(exitUsage, "--placed", "resolve", rotated)
	run(exitUsage, "invalid render id", "resolve", rotated, "--placed", "a/b", "--force")
	run(exitUsage, "the catalog has no render gen_0", "resolve", rotated, "--placed", "gen_0")
	run(exitUsage, "gen_2 has the model studio/haiku", "resolve", rotated, "--placed", "gen_2")
	run(exitOK, "without a check in the catalog for gen_2", "resolve", rotated, "--placed", "gen_2", "--force")
	run(exitOK, "gen_2", "list")
	run(exitOK, rotated+" is resolved", "resolve", "gen_2", "--refused") // corrects the earlier command, which recorded that the order created gen_2
	run(exitOK, rotated, "list", "--state", "refused")
	run(exitOK, "Nothing found", "list", "--state", "placed")
	run(exitOK, rotated+" is resolved", "resolve", "an older API key", "--placed", "gen_1")
	run(exitOK, "gen_1", "list")
	run(exitOK, live, "list", "--unknown")
	run(exitOK, "an operator has recorded its outcome", "get", "gen_1")
	run(exitOK, rotated, "get", "an older API key")
	if got := easelEnv(t.Context(), nil, env, "orders", "get", rotated); !regexp.MustCompile(`(?s)reserve  .*easel.*resolve .*anonymous.*release .*0\.11 EUR .*anonymous.*resolve`).MatchString(got.stdout) {
		t.Errorf("the printed order lacks a reserve, resolve or release line:\n%s", got.stdout)
	}
	for _, want := range []string{
		`"before":{"owner":"studio","state":"unknown"}`, `"before":{"owner":"studio","state":"refused"}`, `"after":{"owner":"studio","state":"placed","generation":"gen_2","forced":true}`,
		`"actor":"anonymous"`, `"from":"127.0.0.1:`, `"subject":"` + rotated,
	} {
		if logged := served.stderr.String(); strings.Count(logged, `"msg":"audit"`) != 3 || !strings.Contains(logged, want) {
			t.Errorf("the log lacks %s:\n%s", want, logged)
		}
	}
	got := easelEnv(t.Context(), nil, env, "audit")
	for _, want := range []string{"BEFORE", `{"owner":"studio","state":"unknown"}`, `{"owner":"studio","state":"placed","generation":"gen_2","forced":true}`, `{"owner":"studio","state":"refused"}`} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the audit lacks %s:\n%s%s", want, got.stdout, got.stderr)
		}
	}
	if got := easel(t.Context(), nil, "ledger", "verify", "--ledger-url", url); got.exit != exitOK || !strings.Contains(got.stdout, "2 orders and 2 budgets, 0 differences") {
		t.Errorf("verifying the ledger of a running server exits with %d:\n%s%s", got.exit, got.stdout, got.stderr)
	}
	env["EASEL_ADMIN_ADDR"] = "127.0.0.1:1"
	run(exitRetry, "--admin-addr", "list")
	env["EASEL_ADMIN_ADDR"] = served.addr("http")
	run(exitUsage, "--admin-addr", "list")
}

func TestResolveRejectsIdempotencyKeyOfTwoOrders(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "book.db")
	led, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: "http://127.0.0.1:1", ResendWindow: 12 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"studio", "shop"} {
		if _, _, err := led.Write(t.Context(), ledger.Request{Namespace: owner, Owner: owner, Caller: owner, IdempotencyKey: "monday", UpstreamKey: owner, ModelID: "m", Digest: "d", APIKey: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := led.Close(); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"EASEL_ADMIN_ADDR": startServe(t, map[string]string{"EASEL_UPSTREAM_URL": "http://127.0.0.1:1", "EASEL_LEDGER_URL": url}).addr("admin")}
	got := easelEnv(t.Context(), nil, env, "orders", "resolve", "monday", "--refused")
	if named := regexp.MustCompile(`ord_\w+ of (studio|shop)`).FindAllString(got.stderr, -1); got.exit != exitUsage || len(named) != 2 {
		t.Errorf("exit %d, printed\n%s", got.exit, got.stderr)
	}
	one := easelEnv(t.Context(), nil, env, "orders", "list", "--limit", "1", "-o", "json")
	if strings.Count(one.stdout, `"id"`) != 1 {
		t.Errorf("list with the limit 1 printed\n%s%s", one.stdout, one.stderr)
	}
}

func TestLedgerVerifyFailsOnInconsistentBudget(t *testing.T) {
	book := "sqlite:" + filepath.Join(t.TempDir(), "book.db")
	writeUnknown(t, ledger.Config{URL: book, Catalog: "https://catalog.example", ResendWindow: 12 * time.Hour}, "key")
	proctest.Exec(t, book, "UPDATE budgets SET reserved_cents = 5 WHERE period = 'month'")
	got := easel(t.Context(), nil, "ledger", "verify", "--ledger-url", book)
	if got.exit != exitFailure || !strings.Contains(got.stdout, " of studio: reserved amount is 5, but the journal has 22") || !strings.Contains(got.stdout, "1 difference") {
		t.Errorf("exit %d, printed\n%s%s", got.exit, got.stdout, got.stderr)
	}
	for url, want := range map[string]string{"memory": "only visible to its own process", book + ".none": "can't be opened"} {
		if got := easel(t.Context(), nil, "ledger", "verify", "--ledger-url", url); got.exit != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, printed\n%s%s", url, got.exit, got.stdout, got.stderr)
		}
	}
}

// catalogOf starts a catalog with generations that have succeeded, and returns its URL. models maps the ID of each
// generation to its model ID.
func catalogOf(t *testing.T, models map[string]string) (url string) {
	t.Helper()
	records := map[string]string{}
	for id, model := range models {
		records[id] = fmt.Sprintf(`{"id":%q,"modelId":%q,"status":"succeeded","costCents":11}`, id, model)
	}
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := path.Base(r.URL.Path)
		if id == "generations" {
			_, _ = fmt.Fprintf(w, `{"generations":[%s]}`, strings.Join(slices.Collect(maps.Values(records)), ","))
			return
		}
		record, known := records[id]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"GENERATION_NOT_FOUND","message":"There is none."}`)
			return
		}
		_, _ = io.WriteString(w, record)
	}))
	t.Cleanup(catalog.Close)
	return catalog.URL
}
