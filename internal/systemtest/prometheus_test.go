package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// prometheus is a real Prometheus that scrapes a server every second.
type prometheus struct {
	facility
	address string
}

// startPrometheus starts Prometheus with the rules in deploy/, and stops it at the end of the test. Prometheus scrapes
// the server of f and the other servers, whose addresses must be quoted.
func startPrometheus(t *testing.T, f facility, others ...string) *prometheus {
	t.Helper()
	program := tool(t, "prometheus")
	rules, directory := proctest.FromRoot(t, "deploy", "prometheus", "rules.yaml"), t.TempDir()
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs: [{job_name: easel, static_configs: [{targets: [%q]}]}, {job_name: others, static_configs: [{targets: [%s]}]}]\n", rules, f.Server.Admin, strings.Join(others, ", "))
	p := proctest.Start(t, os.Environ(), program, "--config.file="+proctest.File(t, text), "--storage.tsdb.path="+filepath.Join(directory, "data"), "--web.listen-address=127.0.0.1:0")
	t.Cleanup(func() { p.Stop() })
	const listening = `Listening on" address=(\S+)`
	p.Ready(t, func(_, stderr string) bool { return regexp.MustCompile(listening).MatchString(stderr) })
	return &prometheus{f, proctest.Find(t, listening, p.Stderr.String())}
}

// ask sends a request to Prometheus's API and decodes the result.
func (p *prometheus) ask(result any, path string) {
	p.Helper()
	var answer struct{ Data json.RawMessage }
	err := json.Unmarshal([]byte(proctest.Fetch(p, http.MethodGet, "http://"+p.address+"/api/v1/"+path, "")), &answer)
	if err == nil {
		err = json.Unmarshal(answer.Data, result)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// seriesCount returns the number of time series in a query's result.
func (p *prometheus) seriesCount(query string) int {
	p.Helper()
	var found struct{ Result []any }
	p.ask(&found, "query?query="+url.QueryEscape(query))
	return len(found.Result)
}

func TestCatalogOutageTriggersPrometheusAlert(t *testing.T) {
	t.Parallel()
	f := newCatalog(t, 2)
	f.With(map[string]string{"EASEL_LEDGER_URL": proctest.Database(t)}).Serve()
	keeps := proctest.Serve(t, map[string]string{ // this server copies results, so that the panels about copies have data
		"EASEL_UPSTREAM_URL": f.Sandbox.Catalog, "EASEL_UPSTREAM_KEY_FILE": proctest.File(t, f.Keys[0]),
		"EASEL_LEDGER_URL": sqliteLedger(t), "EASEL_CONTENT_URL": "file:" + t.TempDir(),
	})
	p := startPrometheus(t, f, strconv.Quote(keeps.Admin))
	f.startWatches(f.Keys[0], 4, 2)
	f.startWatches(f.Keys[1], 1, 1)
	f.until("scrape of all watches", func() bool {
		return p.seriesCount(`sum(easel_watch_open) == 9`) == 1 && p.seriesCount(`up{job="easel"} == 1`) == 1
	})
	for _, query := range []string{
		`sum(easel_generation_active) == 5`, `easel_credentials{easel_upstream_condition="healthy"} == 2`, `sum(easel_orders_total{easel_order_outcome="placed"}) == 5`,
		`sum(easel_order_charged_total{easel_caller="forwarded",easel_model_id="studio/landscape"}) > 0`, `sum(easel_stream_open) == 9`, `easel_build_info == 1`,
		`sum(rpc_server_call_duration_seconds_count{rpc_response_status_code="OK"}) >= 5`, `sum(http_client_request_duration_seconds_count{http_response_status_code="200"}) > 0`,
		`sum(easel_polls_total) > 0`, `process_open_fds > 0`, `easel_ledger_up == 1`, `target_info{service_name="easel"} == 1`,
	} {
		f.until("result of "+query, func() bool { return p.seriesCount(query) > 0 })
	}
	f.until("data for most panels of the dashboard", p.mostPanelsAreAnswered)

	f.Fault(`{"status": 503, "body": "down"}`)
	f.until("alert on the outage", func() bool { return p.seriesCount(`ALERTS{alertname="EaselUpstreamUnreachable"}`) == 1 })
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	p.ask(&rules, "rules")
	evaluated := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if evaluated++; rule.Health == "err" {
				t.Errorf("the rule %s: %s", rule.Name, rule.LastError)
			}
		}
	}
	if evaluated < 20 {
		t.Errorf("only %d rules were evaluated", evaluated)
	}
}

// mostPanelsAreAnswered runs the queries of all panels on the dashboard. Every query must be valid.
// mostPanelsAreAnswered reports whether at least two thirds of the queries return data. The other queries are about
// events that do not occur in the test.
func (p *prometheus) mostPanelsAreAnswered() bool {
	p.Helper()
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(proctest.Read(p, "deploy", "grafana", "easel.json")), &board); err != nil {
		p.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "10s", "$job", "easel|others", "$instance", ".*")
	answered, all := 0, 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			if all++; p.seriesCount(fill.Replace(target.Expr)) > 0 {
				answered++
			}
		}
	}
	p.Logf("%d of the dashboard's %d queries have a result", answered, all)
	return answered*3 >= all*2
}
