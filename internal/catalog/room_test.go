package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// listOf reads a list response with the given number of records. Each record has a different ID, followed by the JSON
// text in members.
func listOf(t *testing.T, count int, members string) *List {
	t.Helper()
	records := make([]string, count)
	for n := range records {
		records[n] = fmt.Sprintf(`{"id":"g%d",%s}`, n, members)
	}
	list, err := readList(answerOf(opGenerations, `{"generations":[`+strings.Join(records, ",")+`],"next":"c"}`))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestListOmitsLongFields(t *testing.T) {
	long := `"` + strings.Repeat("x", 900<<10) + `"`
	for members, want := range map[string]string{
		`"inputs":{"prompt":LONG},"textOutput":"t"`:                                  "inputs",
		`"inputs":{"a":1},"textOutput":LONG`:                                         "text",
		`"inputs":{"a":1},"note":LONG,"list":[LONG]`:                                 "upstream_fields",
		`"inputs":{"prompt":LONG},"textOutput":LONG,"result":{"note":LONG}`:          "inputs text upstream_fields",
		`"inputs":{"a":1},"textOutput":"t","note":"` + strings.Repeat("x", 99) + `"`: "",
	} {
		list := listOf(t, 20, `"status":"succeeded","costCents":7,`+strings.ReplaceAll(members, "LONG", long))
		g, ok := list.Find("g7")
		if len(list.Records) != 20 || list.Cut || !ok || *g.CostCents != 7 || strings.Join(g.Omitted, " ") != want {
			t.Errorf("%d of 20 records are listed, cut: %v; a record omits %q", len(list.Records), list.Cut, g.Omitted)
		}
		for field, is := range map[string]bool{"inputs": g.Inputs != nil, "text": g.Text != nil} {
			if is != (!slices.Contains(g.Omitted, field) && strings.Contains(members, map[string]string{"inputs": "inputs", "text": "textOutput"}[field])) {
				t.Errorf("%s without %q: field %s present: %v", members, want, field, is)
			}
		}
	}
}

func TestListIsTruncatedAtMemoryLimit(t *testing.T) {
	const count = 2 * maxKept / (shortPart/2 + recordSize)
	list := listOf(t, count, `"status":"queued","inputs":{"prompt":"`+strings.Repeat("x", shortPart/2)+`"}`)
	if n := len(list.Records); !list.Cut || n < count/3 || n > 2*count/3 || len(list.Records[n-1].Omitted) > 0 {
		t.Errorf("%d of %d records are listed, cut: %v", n, count, list.Cut)
	}
}

func TestListOf1000LongRecordsIsComplete(t *testing.T) {
	list := listOf(t, 1000, `"status":"queued","inputs":{"prompt":"`+strings.Repeat("x", 50<<10)+`"}`)
	if first, _ := list.Find("g0"); len(list.Records) != 1000 || list.Cut || len(first.Omitted) > 0 {
		t.Errorf("%d of 1000 records are listed, cut: %v; the first omits %v", len(list.Records), list.Cut, first.Omitted)
	}
}

func TestListIsFoundOnlyUpToMaximumEnvelopeDepth(t *testing.T) {
	for depth := range 7 {
		body := strings.Repeat(`{"data":`, depth) + `[{"id":"g1"}]` + strings.Repeat(`}`, depth)
		if all, err := readGenerations(answerOf(opGenerations, body)); (err == nil) != (depth <= maxEnvelope+1) {
			t.Errorf("a list nested in %d objects is read as %v: %v", depth, all, err)
		}
	}
}
