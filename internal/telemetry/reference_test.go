package telemetry

import (
	"fmt"
	"strings"
)

// reference returns the table of metrics as Markdown.
func reference() string {
	var out strings.Builder
	out.WriteString("| OpenTelemetry | Prometheus | kind | unit | labels | |\n|---|---|---|---|---|---|\n")
	for _, row := range Table {
		name := "`" + row.Name + "`"
		if row.Scraped {
			name = "–"
		}
		fmt.Fprintf(&out, "| %s | `%s` | %s | %s | %s | %s |\n", name, row.Prometheus(), row.Kind, unitOf(row), labelsOf(row), row.Text)
	}
	return out.String()
}

func unitOf(m Metric) string {
	if m.Unit == "" {
		return "–"
	}
	return "`" + m.Unit + "`"
}

func labelsOf(m Metric) string {
	if len(m.Labels) == 0 {
		return "–"
	}
	texts := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		texts[i] = "`" + l.Prometheus() + "`"
		switch {
		case l.Values != nil:
			texts[i] += ": " + strings.Join(l.Values, ", ")
		case l.Of != "":
			texts[i] += ": " + l.Of
		}
	}
	return strings.Join(texts, "; ")
}
