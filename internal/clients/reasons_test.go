package clients

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// remedies maps the name of a reason or code to its remedy, as in clients/reasons.json.
type remedies map[string]remedy

// remedy describes how to handle an error: the class of the error, and whether a retry helps.
type remedy struct{ Class, Again string }

// errorTable is the content of clients/reasons.json.
type errorTable struct {
	Classes        map[string]string
	Reasons, Codes remedies
	WatchEnds      []string `json:"watch_ends"`
}

// Reasons for which a retry helps only after the caller or an operator has fixed the cause.
var mended = []string{"INSUFFICIENT_BALANCE", "PRICE_ABOVE_LIMIT", "BUDGET_EXCEEDED", "API_KEY_DAILY_CAP", "GENERATION_ACTIVE", "CONTENT_CHANGED", "RESUME_TOKEN_EXPIRED"}

func readTable(t *testing.T) (table errorTable) {
	t.Helper()
	text := proctest.Read(t, "clients", "reasons.json")
	if err := json.Unmarshal([]byte(text), &table); err != nil {
		t.Fatal(err)
	}
	if easelv1.Reasons != text {
		t.Fatal("clients/reasons.json has changed; run make generate")
	}
	return table
}

func TestTheTableOfErrorsHasEachReasonAndCode(t *testing.T) {
	table := readTable(t)
	table.checkRows(t, table.Reasons, easelv1.ErrorReason_name)
	table.checkRows(t, table.Codes, code.Code_name)
}

// checkRows checks that there is one row for each name of an enum, except for the name of the value 0, which is not an
// error. The class of each row must be in table.Classes. names contains the enum's names, keyed by number.
func (table errorTable) checkRows(t *testing.T, rows remedies, names map[int32]string) {
	t.Helper()
	if len(rows) != len(names)-1 {
		t.Errorf("the table of errors has %d rows, want %d", len(rows), len(names)-1)
	}
	for number, name := range names {
		row, ok := rows[name]
		if ok == (number == 0) {
			t.Errorf("%s is in the table of errors: %v, want the opposite", name, ok)
		}
		if ok && table.Classes[row.Class] == "" {
			t.Errorf("%s has the unknown class %q", name, row.Class)
		}
	}
}

func TestTableOfErrorsMatchesDocumentation(t *testing.T) {
	table := readTable(t)
	page := proctest.Read(t, "docs", "errors.md")
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(\\w+)` \\|[^|]*\\|[^|]*\\|[^|]*\\| (yes|no) \\|").FindAllStringSubmatch(page, -1)
	if len(rows) != len(table.Reasons) {
		t.Fatalf("docs/errors.md has %d reasons, and the table of errors %d", len(rows), len(table.Reasons))
	}
	for _, row := range rows {
		helps, want := row[3] != "no" && !slices.Contains(mended, row[1]), table.Reasons[row[1]]
		if helps == (want.Again == "no") || row[2] != want.Class {
			t.Errorf("docs/errors.md has %q, and the table of errors %+v", row[1:], want)
		}
	}
}
