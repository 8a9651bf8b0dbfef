package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// panel is a panel on the dashboard. Its description is the description of the metric in its first query.
type panel struct {
	title, unit string // unit is the name of a unit in Grafana, such as "s"
	kind        string // "timeseries" or "stat"
	queries     []query
	bad         float64 // value at which a panel of the kind "stat" turns red; zero means never
}

// query is a query in a panel. Its expression is usually generated from the table of metrics.
type query struct{ metric, expr, legend string }

// row is a heading with the panels below it.
type row struct {
	title  string
	panels []panel
}

// where is a label selector for the replicas that are selected on the dashboard.
const where = `job=~"$job",instance=~"$instance"`

// metricNamed returns the metric with the given name, and panics if the table does not contain it.
func metricNamed(name string) Metric {
	at := slices.IndexFunc(Table, func(m Metric) bool { return m.Name == name })
	if at < 0 {
		panic(name + " is not in the table")
	}
	return Table[at]
}

// prometheusLabels returns label names in Prometheus's spelling. It panics if the metric lacks one of the labels.
func prometheusLabels(m Metric, names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		at := slices.IndexFunc(m.Labels, func(l Label) bool { return l.Name == name })
		if at < 0 {
			panic(m.Name + " has no label " + name)
		}
		texts[i] = m.Labels[at].Prometheus()
	}
	return strings.Join(texts, ", ")
}

// queryLegend returns the legend of a query: the title, unless it is empty, and a Grafana placeholder for each
// of the given labels.
func queryLegend(m Metric, title string, by []string) string {
	texts := make([]string, 0, len(by)+1)
	if title != "" {
		texts = append(texts, title)
	}
	for _, name := range by {
		texts = append(texts, "{{"+prometheusLabels(m, []string{name})+"}}")
	}
	return strings.Join(texts, " ")
}

// perSecond returns a query for the rate of a counter, or of a histogram's observations. The rates are
// summed by the given labels.
func perSecond(name, title string, by ...string) query {
	m := metricNamed(name)
	series := m.Prometheus()
	if m.Kind == Histogram {
		series += "_count"
	}
	expr := fmt.Sprintf("sum by (%s) (rate(%s{%s}[$__rate_interval]))", prometheusLabels(m, by), series, where)
	return query{name, strings.Replace(expr, "sum by () ", "sum", 1), queryLegend(m, title, by)}
}

// gauge returns a query for the current value of a gauge. aggregate is an aggregation operator such as sum.
// The result is grouped by the given labels.
func gauge(aggregate, name, title string, by ...string) query {
	m := metricNamed(name)
	expr := fmt.Sprintf("%s by (%s) (%s{%s})", aggregate, prometheusLabels(m, by), m.Prometheus(), where)
	return query{name, strings.Replace(expr, " by () ", "", 1), queryLegend(m, title, by)}
}

// quantile returns a query for a quantile of a histogram. q is the quantile, such as 0.99. The result is grouped by
// the given labels.
func quantile(q, name, title string, by ...string) query {
	m := metricNamed(name)
	group := prometheusLabels(m, by)
	if group != "" {
		group += ", "
	}
	expr := fmt.Sprintf("histogram_quantile(%s, sum by (%sle) (rate(%s_bucket{%s}[$__rate_interval])))", q, group, m.Prometheus(), where)
	return query{name, expr, queryLegend(m, title, by)}
}

// customQuery returns a query with the given expression, in which each <name> is replaced with the series of that
// metric.
func customQuery(expr, title string) query {
	first := ""
	for _, m := range Table {
		for _, suffix := range []string{"_bucket", "_count", "_sum", ""} {
			written := "<" + m.Name + suffix + ">"
			if strings.Contains(expr, written) {
				expr = strings.ReplaceAll(expr, written, m.Prometheus()+suffix)
				if first == "" {
					first = m.Name
				}
			}
		}
	}
	return query{first, strings.ReplaceAll(expr, "$where", where), title}
}

func lines(title, unit string, queries ...query) panel {
	return panel{title: title, unit: unit, kind: "timeseries", queries: queries}
}

func number(title, unit string, bad float64, q query) panel {
	return panel{title: title, unit: unit, kind: "stat", queries: []query{q}, bad: bad}
}

// dashboard contains the panels for operators, the most urgent ones first.
var dashboard = []row{
	{"Is it well?", []panel{
		number("Longest time since a response", "s", 60, gauge("max", "easel.generation.stalest", "")),
		number("Keys with problems", "none", 1, customQuery(`sum(<easel.credentials>{easel_upstream_condition!~"healthy|unknown",$where}) or vector(0)`, "")),
		number("Calls that failed here", "percentunit", 0.01, customQuery(`(sum(rate(<rpc.server.call.duration_count>{rpc_response_status_code=~"INTERNAL|UNKNOWN|DATA_LOSS|UNAVAILABLE",$where}[$__rate_interval])) or vector(0)) / sum(rate(<rpc.server.call.duration_count>{$where}[$__rate_interval]))`, "")),
		number("Upstream responses with 429", "percentunit", 0.05, customQuery(`(sum(rate(<http.client.request.duration_count>{http_response_status_code="429",$where}[$__rate_interval])) or vector(0)) / sum(rate(<http.client.request.duration_count>{$where}[$__rate_interval]))`, "")),
		number("Spent in 24 hours", "currencyEUR", 0, customQuery(`(sum(increase(<easel.order.charged>{$where}[24h])) or vector(0)) / 100`, "")),
	}},
	{"Freshness", []panel{
		lines("Time until new states are detected", "s", quantile("0.5", "easel.detection.delay", "half"), quantile("0.99", "easel.detection.delay", "99 %")),
		lines("Time since the last response", "s", gauge("max", "easel.generation.stalest", "longest wait"), quantile("0.99", "easel.heartbeat.age", "in heartbeats, 99 %")),
		lines("Active renders and watches", "none", gauge("sum", "easel.generation.active", "active renders"), gauge("sum", "easel.watch.open", "watches")),
		lines("New states detected", "cps", perSecond("easel.changes", "", "easel.generation.state")),
	}},
	{"The catalog", []panel{
		lines("Requests by status", "reqps", perSecond("http.client.request.duration", "", "http.response.status_code", "error.type")),
		lines("Time to the response, 99 %", "s", quantile("0.99", "http.client.request.duration", "", "http.request.method", "url.template")),
		lines("Keys by condition", "none", gauge("sum", "easel.credentials", "", "easel.upstream.condition"), gauge("sum", "easel.credential.paused", "paused")),
		lines("Requests waiting for permits", "none", gauge("sum", "easel.limiter.waiting", "", "easel.owner", "easel.limiter.class")),
		lines("Longest wait, and time until the limiter opens", "s",
			gauge("max", "easel.limiter.wait", "longest wait"), gauge("max", "easel.limiter.opens", "opens in")),
		lines("Closed limiters", "none", gauge("sum", "easel.limiter.closed", "", "easel.limiter.reason")),
		lines("Available polls", "none", gauge("min", "easel.poll.ready", "immediately"), gauge("min", "easel.poll.rate", "per second")),
		lines("Polls", "reqps", perSecond("easel.polls", "", "easel.poll.kind", "easel.poll.outcome")),
		lines("Rate limited (429)", "reqps", customQuery(`sum by (http_request_method, url_template) (rate(<http.client.request.duration_count>{http_response_status_code="429",$where}[$__rate_interval]))`, "{{http_request_method}} {{url_template}}")),
	}},
	{"Callers", []panel{
		lines("Calls", "reqps", perSecond("rpc.server.call.duration", "", "rpc.method")),
		lines("Calls that were not OK", "reqps", customQuery(`sum by (rpc_response_status_code, rpc_method) (rate(<rpc.server.call.duration_count>{rpc_response_status_code!="OK",$where}[$__rate_interval]))`, "{{rpc_response_status_code}} {{rpc_method}}")),
		lines("Time of unary calls, 99 %", "s", customQuery(`histogram_quantile(0.99, sum by (rpc_method, le) (rate(<rpc.server.call.duration_bucket>{rpc_method!~".*(Watch|Wait|Download).*",$where}[$__rate_interval])))`, "{{rpc_method}}")),
		lines("REST requests", "reqps", perSecond("http.server.request.duration", "", "http.route", "http.response.status_code")),
	}},
	{"Streams", []panel{
		lines("Open", "none", gauge("sum", "easel.stream.open", "", "rpc.method")),
		lines("Ended, by reason", "cps", perSecond("easel.stream.closures", "", "easel.stream.reason", "rpc.method")),
		lines("Events delivered", "cps", perSecond("easel.pushes", "", "easel.push.event"), perSecond("easel.update.conflated", "conflated"), perSecond("easel.update.regressed", "went backwards")),
		lines("Bytes of results", "Bps", perSecond("easel.content.sent", "", "rpc.method")),
	}},
	{"Money", []panel{
		lines("Spent in an hour, by model", "currencyEUR",
			customQuery(`sum by (easel_model_id) (increase(<easel.order.charged>{$where}[1h])) / 100`, "{{easel_model_id}}")),
		lines("Spent in an hour, by caller", "currencyEUR",
			customQuery(`sum by (easel_caller) (increase(<easel.order.charged>{$where}[1h])) / 100`, "{{easel_caller}}")),
		lines("Orders", "cps", perSecond("easel.orders", "", "easel.order.outcome")),
	}},
	{"The ledger", []panel{
		lines("Spent by owner", "currencyEUR", customQuery(`max by (easel_owner) (<easel.ledger.spent>{$where}) / 100`, "{{easel_owner}}"), customQuery(`max by (easel_owner) (<easel.ledger.refunded>{$where}) / 100`, "{{easel_owner}} refunded")),
		lines("Reserved by owner", "currencyEUR", customQuery(`max by (easel_owner) (<easel.ledger.reserved>{$where}) / 100`, "{{easel_owner}} reserved"), customQuery(`max by (easel_owner) (<easel.ledger.unconfirmed>{$where}) / 100`, "{{easel_owner}} unconfirmed")),
		lines("Budgets used", "percentunit", customQuery(`1 - max by (easel_owner, easel_budget_window) (<easel.ledger.budget.left>{$where}) / max by (easel_owner, easel_budget_window) (<easel.ledger.budget.limit>{$where})`, "{{easel_owner}} {{easel_budget_window}}")),
		lines("Orders of unknown outcome", "none", gauge("max", "easel.ledger.order.unknown", "orders")),
		lines("Age of the oldest order of unknown outcome", "s", gauge("max", "easel.ledger.order.oldest", "oldest")),
		lines("Availability of the ledger", "none", gauge("min", "easel.ledger.up", "all: 1")),
		lines("Operations of its database, slowest 1 %", "s", quantile("0.99", "db.client.operation.duration", "", "db.operation.name")),
		lines("Contradictions in the ledger, and charges above the quote", "cps", perSecond("easel.ledger.faults", "faults"), perSecond("easel.ledger.dearer", "above the quote")),
		lines("Events sent, and not accepted", "cps", perSecond("easel.events", "", "easel.owner", "easel.event.outcome")),
		lines("Waiting events", "none", customQuery(`max by (easel_owner) (<easel.event.pending>{$where})`, "{{easel_owner}}")),
		lines("Age of the oldest waiting event", "s", customQuery(`max by (easel_owner) (<easel.event.oldest>{$where})`, "{{easel_owner}}")),
	}},
	{"Copies of results", []panel{
		lines("Results that wait, and that can't be copied", "none", gauge("max", "easel.content.waiting", "wait"), gauge("max", "easel.content.failed", "can't be copied")),
		lines("Age of the oldest waiting result", "s", gauge("max", "easel.content.oldest_waiting", "oldest")),
		lines("Copies", "cps", perSecond("easel.content.copies", "", "easel.content.outcome")),
		lines("Bytes copied", "Bps", perSecond("easel.content.copied", "copied")),
		lines("Reads of copies", "cps", perSecond("easel.content.reads", "", "easel.content.source")),
	}},
	{"The process", []panel{
		lines("Memory", "bytes", gauge("max", "process_resident_memory_bytes", "resident"), gauge("max", "go.memory.used", "", "go.memory.type"), gauge("max", "go.memory.gc.goal", "goal"), gauge("max", "go.memory.limit", "limit")),
		lines("CPU", "none", perSecond("process_cpu_seconds_total", "cores used"), gauge("max", "go.processor.limit", "of")),
		lines("Goroutines", "none", gauge("max", "go.goroutine.count", "")),
		lines("Open files", "none", gauge("max", "process_open_fds", "open"), gauge("min", "process_max_fds", "limit")),
		lines("Settings that can't be applied", "none", gauge("max", "easel.setting.broken", "", "easel.setting")),
		lines("Builds", "none", gauge("sum", "easel.build.info", "", "service.version", "process.runtime.version")),
	}},
}

type object = map[string]any

// grafanaDashboard returns the dashboard in Grafana's import format.
func grafanaDashboard(rows []row) ([]byte, error) {
	var panels []any
	y, id := 0, 0
	for _, r := range rows {
		id++
		panels = append(panels, object{"type": "row", "title": r.title, "id": id, "collapsed": false, "panels": []any{}, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}})
		y++
		x, w, h := 0, 8, 8
		if r.panels[0].kind == "stat" {
			w, h = 4, 4
		}
		for _, p := range r.panels {
			if x+w > 24 {
				x, y = 0, y+h
			}
			id++
			panels = append(panels, drawn(p, id, object{"x": x, "y": y, "w": w, "h": h}))
			x += w
		}
		y += h
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(object{
		"title": "Easel", "uid": "easel", "tags": []string{"easel"}, "schemaVersion": 39, "version": 1, "editable": true,
		"refresh": "30s", "time": object{"from": "now-3h", "to": "now"}, "timezone": "browser",
		"templating": object{"list": []any{
			object{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"},
			variable("job", "Job", `label_values(easel_build_info, job)`),
			variable("instance", "Replica", `label_values(easel_build_info{job=~"$job"}, instance)`),
		}},
		"panels": panels,
	})
	return out.Bytes(), err
}

func variable(name, label, ask string) object {
	return object{
		"type": "query", "name": name, "label": label, "datasource": source, "query": ask, "refresh": 2,
		"includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
	}
}

var source = object{"type": "prometheus", "uid": "${datasource}"}

func drawn(p panel, id int, at object) object {
	var targets []any
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend, "range": p.kind != "stat", "instant": p.kind == "stat"})
	}
	steps := []any{object{"color": "green", "value": nil}}
	if p.bad > 0 {
		steps = append(steps, object{"color": "red", "value": p.bad})
	}
	defaults := object{"unit": p.unit, "min": 0, "thresholds": object{"mode": "absolute", "steps": steps}}
	return object{
		"type": p.kind, "title": p.title, "id": id, "gridPos": at, "datasource": source, "description": metricNamed(p.queries[0].metric).Text,
		"fieldConfig": object{"defaults": defaults, "overrides": []any{}}, "targets": targets,
	}
}

func TestDashboardFileMatchesTheGeneratedDashboard(t *testing.T) {
	made, err := grafanaDashboard(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "deploy", "grafana", "easel.json")
	if *update {
		if err := os.WriteFile(path, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, made) {
		t.Errorf("%s differs from the generated dashboard; run go test ./internal/telemetry -run Dashboard -update", path)
	}
}

func TestDashboardShowsAllApplicationMetrics(t *testing.T) {
	drawn := strings.Builder{}
	for _, q := range queriesOf(dashboard) {
		drawn.WriteString(q.expr)
	}
	for _, m := range Table {
		own := strings.HasPrefix(m.Name, "easel.") || strings.HasPrefix(m.Name, "rpc.") || strings.HasPrefix(m.Name, "http.")
		if own && !strings.Contains(drawn.String(), m.Prometheus()) {
			t.Errorf("%s is measured but not shown", m.Name)
		}
	}
}

func queriesOf(rows []row) (all []query) {
	for _, r := range rows {
		for _, p := range r.panels {
			all = append(all, p.queries...)
		}
	}
	return all
}
