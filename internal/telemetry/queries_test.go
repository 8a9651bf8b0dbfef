package telemetry

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// vocabulary maps each series to the labels that a query may use.
type vocabulary map[string][]string

// knownSeries returns the series in the table of metrics, and the series "up", which Prometheus adds.
func knownSeries() vocabulary {
	v := vocabulary{"up": nil}
	for _, m := range Table {
		var names []string
		for _, l := range m.Labels {
			names = append(names, l.Prometheus())
		}
		for _, series := range seriesOf(m) {
			v[series] = names
			if strings.HasSuffix(series, "_bucket") {
				v[series] = append(names[:len(names):len(names)], "le")
			}
		}
	}
	return v
}

// seriesOf returns the names of a metric's series in Prometheus, without labels.
func seriesOf(m Metric) []string {
	name := m.Prometheus()
	if m.Kind == Histogram {
		return []string{name + "_bucket", name + "_sum", name + "_count"}
	}
	return []string{name}
}

var (
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selector = regexp.MustCompile(`([a-z_][a-z0-9_:]*)\s*\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`([a-z_][a-z0-9_]*)\s*(?:=~|!~|!=|=)`)
	ranged   = regexp.MustCompile(`\[[^\]]*\]`)
	word     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	keywords = []string{"by", "without", "on", "ignoring", "and", "or", "unless", "bool", "offset", "group_left", "group_right"}
)

// findFaults returns a message for each unknown series or label in an expression.
func (v vocabulary) findFaults(expr string) (all []string) {
	expr = quoted.ReplaceAllString(expr, `""`)
	may := []string{"job", "instance"}
	for _, series := range v.seriesOf(expr) {
		names, ok := v[series]
		if !ok {
			all = append(all, "there is no series "+series)
		}
		may = append(may, names...)
	}
	for _, part := range selector.FindAllStringSubmatch(expr, -1) {
		for _, m := range matcher.FindAllStringSubmatch(part[2], -1) {
			if !slices.Contains(append([]string{"job", "instance"}, v[part[1]]...), m[1]) {
				all = append(all, part[1]+" has no label "+m[1])
			}
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(group[1], ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(may, name) {
				all = append(all, "nothing has the label "+name)
			}
		}
	}
	return all
}

// seriesOf returns the series in an expression: all names that are neither functions nor keywords.
func (vocabulary) seriesOf(expr string) (all []string) {
	expr = grouping.ReplaceAllString(expr, " ")
	expr = ranged.ReplaceAllString(selector.ReplaceAllString(expr, "$1 "), " ")
	for _, found := range word.FindAllString(expr, -1) {
		name := strings.TrimSpace(found)
		if !strings.HasSuffix(name, "(") && !slices.Contains(keywords, name) {
			all = append(all, name)
		}
	}
	return all
}

func TestQueryCheckFindsUnknownMetricsAndLabels(t *testing.T) {
	v := knownSeries()
	for expr, want := range map[string]int{
		`sum by (easel_generation_state) (rate(easel_changes_total{job="x"}[5m]))`:            0,
		`sum by (le) (rate(easel_detection_delay_seconds_bucket[5m]))`:                        0,
		`easel_credentials{easel_upstream_condition="healthy"} > 0 and on (instance) up == 1`: 0,
		`rate(easel_moves_total[5m])`:                         1,
		`rate(easel_changes[5m])`:                             1,
		`easel_credentials{conditions="healthy"}`:             1,
		`sum by (easel_caller) (rate(easel_polls_total[5m]))`: 1,
		`sum by (le) (rate(easel_polls_total[5m]))`:           1,
		`easel_poll_ready / easel_poll_rate`:                  1,
		`rate(easel_changes_total{easel_poll_kind="read"}[5m]) + sum by (easel_poll_kind) (rate(easel_polls_total{id="x"}[5m]))`: 2,
	} {
		if got := v.findFaults(expr); len(got) != want {
			t.Errorf("%s: %q", expr, got)
		}
	}
}

func TestEveryQueryOfTheDashboardReadsExistingMetrics(t *testing.T) {
	v := knownSeries()
	for _, q := range queriesOf(dashboard) {
		for _, fault := range v.findFaults(q.expr) {
			t.Errorf("%s: %s", q.expr, fault)
		}
	}
}

// ruleFile is a Prometheus rule file.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Record, Alert, Expr, For string
			Labels, Annotations      map[string]string
		}
	}
}

const rulesDirectory = "../../deploy/prometheus"

func readRules(t *testing.T) (file ruleFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rulesDirectory, "rules.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEveryRuleReadsExistingMetrics(t *testing.T) {
	v, file := knownSeries(), readRules(t)
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if r.Record != "" {
				v[r.Record] = nil
			}
		}
	}
	alerts := 0
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			for _, fault := range v.findFaults(r.Expr) {
				t.Errorf("%s%s: %s", r.Alert, r.Record, fault)
			}
			if r.Record != "" {
				continue
			}
			alerts++
			if r.Annotations["summary"] == "" || r.Annotations["action"] == "" || !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
				t.Errorf("%s has no summary, no action or no valid severity", r.Alert)
			}
		}
	}
	if alerts < 10 {
		t.Errorf("found only %d alerts", alerts)
	}
}

// promtool runs Prometheus's tool promtool in a directory.
func promtool(t *testing.T, directory string, args ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs promtool; make test-system runs this test")
	}
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: install Prometheus")
	}
	command := exec.CommandContext(t.Context(), path, args...)
	command.Dir = directory
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusAcceptsRulesAndConfiguration(t *testing.T) {
	promtool(t, rulesDirectory, "check", "rules", "rules.yaml")
	promtool(t, rulesDirectory, "test", "rules", "rules_test.yaml")
	promtool(t, rulesDirectory, "check", "config", "prometheus.yaml")
}

func TestEveryAlertHasPositiveAndNegativeTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rulesDirectory, "rules_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Alerts []struct {
				Alertname string `yaml:"alertname"`
				Expected  []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	fired, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			fired[a.Alertname] = fired[a.Alertname] || len(a.Expected) > 0
			silent[a.Alertname] = silent[a.Alertname] || len(a.Expected) == 0
		}
	}
	for _, group := range readRules(t).Groups {
		for _, r := range group.Rules {
			if r.Alert != "" && (!fired[r.Alert] || !silent[r.Alert]) {
				t.Errorf("%s: tested while firing: %v, tested while silent: %v", r.Alert, fired[r.Alert], silent[r.Alert])
			}
		}
	}
}

// filledIn replaces Grafana's variables with values, because Prometheus can't parse variables.
var filledIn = strings.NewReplacer("$__rate_interval", "1m", "$job", "easel", "$instance", ".*")

func TestPrometheusCanReadEveryQueryOfTheDashboard(t *testing.T) {
	var rules []any
	for i, q := range queriesOf(dashboard) {
		rules = append(rules, map[string]string{"record": fmt.Sprintf("panel:%d", i), "expr": filledIn.Replace(q.expr)})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "queries.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, directory, "check", "rules", "queries.yaml")
}
