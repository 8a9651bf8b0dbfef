package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// TestTheCommandsOfTheRunbookWork runs the commands on the operators' page, starting with the section "Back up". It
// stops the server before 'easel ledger copy', and starts it again after 'easel ledger restored'. The catalog has a
// render, gen_since, that the ledger lacks, as if the ledger had been restored from an older backup.
func TestTheCommandsOfTheRunbookWork(t *testing.T) {
	dir := t.TempDir()
	file, moved := filepath.Join(dir, "ledger.db"), "sqlite:"+filepath.Join(dir, "moved.db")
	upstream := catalogOf(t, map[string]string{"gen_8M2": "studio/poster", "gen_since": "studio/poster"})
	order, live := writeUnknown(t, ledger.Config{URL: "sqlite:" + file, Catalog: upstream, ResendWindow: 12 * time.Hour}, "key")
	settings := map[string]string{
		"EASEL_UPSTREAM_URL": upstream, "EASEL_UPSTREAM_KEY_FILE": proctest.File(t, "key\n"), "EASEL_LEDGER_URL": "sqlite:" + file,
		"EASEL_CALLERS_FILE": proctest.File(t, "teams: {studio: {}}\ncallers: [{name: poster-service, team: studio}, {name: ops, operator: true, tokens: [\""+auth.Hash("ops-token")+"\"]}]\n"),
	}
	env := map[string]string{"EASEL_API_KEY": "ops-token"}
	serve := func() *running {
		served := startServe(t, settings)
		env["EASEL_ADMIN_ADDR"], env["EASEL_ADDR"] = served.addr("admin"), served.addr("grpc")
		return served
	}
	served := serve()
	here := strings.NewReplacer(
		"ord_4VKX", order, "sqlite:/var/lib/easel/ledger.db", "sqlite:"+file, "/backup/ledger.db", filepath.Join(dir, "backup.db"), "postgres://easel@db.example/easel", moved,
		"postgres://owner@db.example/easel", moved,
	)
	shows := map[string]string{ // text that a command's output must contain, keyed by the command's first words
		"orders list --reserved": live, "orders get ord_": "last problem", "orders list --unknown": "HTTP 402", "orders resolve": "is resolved", "orders get gen_": "studio/poster",
		"erase": "1 orders are erased", "ledger verify": "0 differences", "ledger backup": "2 orders",
		"ledger copy": "rows are copied", "ledger migrate": "the schema is", "ledger restored": "1 orders are held", "orders list --held": live, "list --limit 0": "gen_since", "ledger unseal": "1 orders are held", "content adopt": "are adopted",
	}
	_, runbook, _ := strings.Cut(proctest.Read(t, operatorsPage), "\n## Back up\n")
	ran := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```\n(easel .*?)```").FindAllStringSubmatch(runbook, -1) {
		for line := range strings.Lines(block[1]) {
			command := strings.TrimSpace(here.Replace(strings.TrimPrefix(line, "easel ")))
			if strings.HasPrefix(command, "ledger copy") {
				served.stop()
			}
			begin := longestBegin(command, shows)
			ran[begin] = true
			got := easelEnv(t.Context(), nil, env, strings.Fields(command)...)
			exit := exitOK
			if begin == "erase" { // the erasure fails, because the outcome of one order is still unknown
				exit = exitFailure
			}
			if got.exit != exit || begin == "" || !strings.Contains(got.stdout, shows[begin]) {
				t.Errorf("%s: exit %d, want output with %q\n%s%s", command, got.exit, shows[begin], got.stdout, got.stderr)
			}
			if begin == "ledger restored" {
				served = serve()
			}
		}
	}
	if len(ran) != len(shows) {
		t.Errorf("the page has only the commands %v", ran)
	}
}

// longestBegin returns the longest key in names with which the command begins, or "" if no key matches.
func longestBegin(command string, names map[string]string) (longest string) {
	for name := range names {
		if strings.HasPrefix(command, name) && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}
