package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// texts contains licenses, keyed by the words of their texts. A key omits copyright lines, the title line and line breaks,
// so licenses that differ only in these have the same key.
type texts map[string]*licence

// licence is the text of a license without copyright lines, and the names of the modules or packages that have this license.
type licence struct {
	body  string
	parts []string
}

var (
	copyrightLine = regexp.MustCompile(`(?i)^[*#/\s]*copyright\b.*(\(c\)|©|\d{4})`)
	titleLine     = regexp.MustCompile(`(?i)^[*#\s]*\(?(the )?mit license( \(mit\))?\)?[:*\s]*$`)
)

// addText adds the license text of a part, which is a module or a package.
func (t texts) addText(part, text string) {
	var body []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\r", "")) {
		switch {
		case copyrightLine.MatchString(line):
			part += "\n    " + strings.Trim(line, "*#/ \n")
		case !titleLine.MatchString(line):
			body = append(body, line)
		}
	}
	plain := strings.Trim(strings.Join(body, ""), "\n") + "\n"
	key := strings.Join(strings.Fields(plain), " ")
	if t[key] == nil {
		t[key] = &licence{body: plain}
	}
	t[key].parts = append(t[key].parts, part)
}

// String returns all licenses as one text. Before each license, it lists the modules or packages that have this license.
func (t texts) String() string {
	var out strings.Builder
	for _, l := range t {
		slices.Sort(l.parts)
		l.parts = slices.Compact(l.parts)
	}
	for _, l := range slices.SortedFunc(maps.Values(t), func(a, b *licence) int { return slices.Compare(a.parts, b.parts) }) {
		fmt.Fprintf(&out, "%s\n\n%s\n%s\n\n", strings.Join(l.parts, "\n"), l.body, strings.Repeat("=", 80))
	}
	return out.String()
}
