package clients

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// helpers are the files that say after which reasons each language tries again by itself.
var helpers = []string{
	"clients/go/errors.go", "clients/python/src/easel/errors.py", "clients/typescript/src/easel.ts",
	"clients/java/src/main/java/io/github/easelgrpc/easel/Errors.java",
}

// mended are reasons after which another attempt helps where somebody has done something first.
var mended = []string{"INSUFFICIENT_BALANCE", "PRICE_ABOVE_LIMIT", "BUDGET_EXCEEDED", "API_KEY_DAILY_CAP", "GENERATION_ACTIVE", "CONTENT_CHANGED"}

func TestEveryHelperTriesAgainAfterTheReasonsOfThePage(t *testing.T) {
	page := string(readFile(t, filepath.Join(proctest.Root, "docs", "errors.md")))
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|[^|]*\\|[^|]*\\|[^|]*\\| (yes|perhaps) \\|").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(mended, row[1]) {
			want = append(want, row[1])
		}
	}
	if slices.Sort(want); len(want) < 15 {
		t.Fatalf("the page has only %q", want)
	}
	for _, file := range helpers {
		var got []string
		text := string(readFile(t, filepath.Join(proctest.Root, file)))
		for _, found := range regexp.MustCompile(`(?:\bErrorReason[._]|\bcase )([A-Z][A-Z_]+)\b`).FindAllStringSubmatch(text, -1) {
			if found[1] != "ERROR_REASON_UNSPECIFIED" {
				got = append(got, found[1])
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s names %q, the page %q", file, got, want)
		}
	}
}
