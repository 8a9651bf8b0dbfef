package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestDeleteWithAllowMissingFlagReportsAbsence(t *testing.T) {
	var asked *easelv1.DeleteGenerationRequest
	dial := (&scripted{remove: func(r *easelv1.DeleteGenerationRequest) error { asked = r; return nil }}).serve(t)
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{nil, "deleted gen_1\n"},
		{[]string{"--allow-missing"}, "gen_1 is not in the catalog\n"},
		{[]string{"--allow-missing", "-q"}, "gen_1\n"},
		{[]string{"--allow-missing", "-o", "json"}, "{}\n"},
	} {
		got := easelRun(t.Context(), dial, append([]string{"delete", "gen_1"}, test.flags...)...)
		if got.exit != ExitOK || got.stdout != test.want || got.stderr != "" || asked.AllowMissing != (test.flags != nil) {
			t.Errorf("%q: exit %d, request %v, printed\n%s%s", test.flags, got.exit, asked, got.stdout, got.stderr)
		}
	}
}

// shelfServer starts a scripted server that lists the given number of renders in pages of 100.
func shelfServer(t *testing.T, renders int) dialer {
	return (&scripted{list: func(r *easelv1.ListGenerationsRequest) *easelv1.ListGenerationsResponse {
		at, _ := strconv.Atoi(r.PageToken) // without a token, Atoi returns zero, the offset of the first page
		page := &easelv1.ListGenerationsResponse{}
		for ; at < renders && len(page.Generations) < 100; at++ {
			page.Generations = append(page.Generations, render(fmt.Sprint("gen_", at), succeeded))
		}
		if at < renders {
			page.NextPageToken = strconv.Itoa(at)
		}
		return page
	}}).serve(t)
}

func TestListCommandFetchesPagesUpToLimit(t *testing.T) {
	dial := shelfServer(t, 1500)
	for limit, renders := range map[int]int{1: 1, 20: 20, 100: 100, 150: 150, 1200: 1200, 1500: 1500, 9_999_999_999: 1500, 0: 1500} {
		got := easelRun(t.Context(), dial, "list", "--limit", strconv.Itoa(limit), "-o", "json")
		var page struct{ Generations []json.RawMessage }
		if err := json.Unmarshal([]byte(got.stdout), &page); err != nil || got.exit != ExitOK || len(page.Generations) != renders {
			t.Errorf("--limit %d: exit %d, %v, %d renders, want %d\n%s", limit, got.exit, err, len(page.Generations), renders, got.stderr)
		}
	}
}
