package cli

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// usageServer starts a scripted server with two pages of usage. It appends each request for a page to *asked.
func usageServer(t *testing.T, asked *[]*easelv1.ListUsageRequest) dialer {
	return (&scripted{usage: func(r *easelv1.ListUsageRequest) (*easelv1.ListUsageResponse, error) {
		*asked = append(*asked, r)
		if r.PageToken == "" {
			return &easelv1.ListUsageResponse{NextPageToken: "2", Rows: []*easelv1.UsageRow{
				{Owner: "print", LabelValue: "=spring, \"a\"", OrderCount: 2, FailedCount: 1, CostCents: 130, RefundedCents: 30},
			}}, nil
		}
		return &easelv1.ListUsageResponse{Rows: []*easelv1.UsageRow{{Owner: "studio", OrderCount: 10, UnknownCount: 1, CostCents: 1200, ReservedCents: 11}}}, nil
	}}).serve(t)
}

func TestUsageCommandPrintsTableWithTotals(t *testing.T) {
	var asked []*easelv1.ListUsageRequest
	got := easelRun(t.Context(), usageServer(t, &asked), "usage", "--by", "owner,label=campaign", "--since", "2026-11-01", "--until", "2026-11-30")
	want := `OWNER   CAMPAIGN      ORDERS  FAILED  UNKNOWN  COST       REFUNDED  RESERVED
print   =spring, "a"  2       1                1.30 EUR   0.30 EUR
studio                10              1        12.00 EUR            0.11 EUR
total                 12      1       1        13.30 EUR  0.30 EUR  0.11 EUR
`
	if got.exit != ExitOK || got.stdout != want || got.stderr != "" {
		t.Errorf("exit %d, printed\n%s%s", got.exit, got.stdout, got.stderr)
	}
	first := &easelv1.ListUsageRequest{
		StartTime: timestamppb.New(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)), EndTime: timestamppb.New(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)),
		GroupBy: []easelv1.UsageDimension{easelv1.UsageDimension_USAGE_DIMENSION_OWNER, easelv1.UsageDimension_USAGE_DIMENSION_LABEL}, LabelName: "campaign",
		PageSize: 1000,
	}
	if len(asked) != 2 || !proto.Equal(asked[0], first) || asked[1].PageToken != "2" {
		t.Errorf("the requests are %v", asked)
	}
}

func TestUsagePrintsCSVOrJSONOrOnlyTheTotal(t *testing.T) {
	var asked []*easelv1.ListUsageRequest
	dial := usageServer(t, &asked)
	got := easelRun(t.Context(), dial, "usage", "--by=owner,label=campaign", "--csv")
	want := `owner,campaign,order_count,failed_count,unknown_count,cost_cents,refunded_cents,reserved_cents,unconfirmed_cents
print,"'=spring, ""a""",2,1,0,130,30,0,0
studio,,10,0,1,1200,0,11,0
`
	if got.exit != ExitOK || got.stdout != want {
		t.Errorf("exit %d, printed\n%s%s", got.exit, got.stdout, got.stderr)
	}
	if got := easelRun(t.Context(), dial, "usage", "-q"); got.stdout != "13.00 EUR\n" {
		t.Errorf("printed %s%s", got.stdout, got.stderr)
	}
	got = easelRun(t.Context(), dial, "usage", "-o", "json")
	var all struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || len(all.Rows) != 2 || all.Rows[1]["costCents"] != "1200" {
		t.Errorf("%v in\n%s%s", err, got.stdout, got.stderr)
	}
	month := time.Now().UTC()
	if start := asked[len(asked)-1].StartTime.AsTime(); start.Day() != 1 || start.Month() != month.Month() || asked[0].EndTime != nil {
		t.Errorf("without --since the report starts at %v", start)
	}
	for _, args := range [][]string{
		{"--by", "week"},
		{"--by", "label"},
		{"--by", "owner=x"},
		{"--by", "label=a,label=b"},
		{"--since", "yesterday"},
		{"--csv", "-o", "json"},
		{"--csv", "-q"},
		{"--since", "2026-11-02", "--until", "2026-11-01"},
	} {
		if got := easelRun(t.Context(), dial, append([]string{"usage"}, args...)...); got.exit != ExitUsage {
			t.Errorf("%q: exit %d, printed\n%s%s", args, got.exit, got.stdout, got.stderr)
		}
	}
	none := (&scripted{usage: func(*easelv1.ListUsageRequest) (*easelv1.ListUsageResponse, error) {
		return nil, serverError(codes.InvalidArgument, "INVALID_REQUEST")
	}}).serve(t)
	if got := easelRun(t.Context(), none, "usage"); got.exit != ExitUsage || !strings.Contains(got.stderr, "INVALID_REQUEST") {
		t.Errorf("a rejected request: exit %d, printed\n%s", got.exit, got.stderr)
	}
}

func TestAnAccountShowsItsBudgets(t *testing.T) {
	reset := timestamppb.New(time.Date(2026, 12, 1, 0, 0, 0, 0, time.Local))
	dial := (&scripted{account: func() (*easelv1.Account, error) {
		return &easelv1.Account{CurrencyCode: "EUR", Budgets: []*easelv1.Budget{
			{Window: easelv1.BudgetWindow_BUDGET_WINDOW_DAY, LimitCents: 2000, SpentCents: 490, ReservedCents: 10, ResetTime: reset},
			{Window: easelv1.BudgetWindow_BUDGET_WINDOW_MONTH, LimitCents: 0, ResetTime: reset},
		}}, nil
	}}).serve(t)
	got := easelRun(t.Context(), dial, "account")
	want := `balance       not shown: only operators can see it, or the catalog does not report it
day budget    5.00 EUR of 20.00 EUR (0.10 EUR reserved), until 2026-12-01 00:00:00
month budget  0.00 EUR of 0.00 EUR, until 2026-12-01 00:00:00
`
	if got.exit != ExitOK || got.stdout != want {
		t.Errorf("exit %d, printed\n%s%s", got.exit, got.stdout, got.stderr)
	}
}

func TestListCommandSendsFilterFromFlags(t *testing.T) {
	var asked *easelv1.GenerationFilter
	dial := (&scripted{list: func(r *easelv1.ListGenerationsRequest) *easelv1.ListGenerationsResponse {
		asked = r.Filter
		mine, other := render("gen_1", succeeded), render("gen_2", queued)
		mine.Owner, other.Owner = "studio", "print"
		return &easelv1.ListGenerationsResponse{Generations: []*easelv1.Generation{mine, other}}
	}}).serve(t)
	got := easelRun(t.Context(), dial, "list", "--model", "m", "--state", "failed,refunded", "--state", "deleted", "--label", "a=1,2", "--label", "b=", "--owner", "studio")
	want := &easelv1.GenerationFilter{
		ModelId: "m", Owner: "studio", Labels: map[string]string{"a": "1,2", "b": ""},
		States: []easelv1.State{easelv1.State_STATE_FAILED, easelv1.State_STATE_REFUNDED, easelv1.State_STATE_DELETED},
	}
	if got.exit != ExitOK || !proto.Equal(asked, want) || !strings.Contains(got.stdout, "OWNER") {
		t.Errorf("exit %d, filter %v, printed\n%s%s", got.exit, asked, got.stdout, got.stderr)
	}
	if got := easelRun(t.Context(), dial, "list"); got.exit != ExitOK || asked != nil {
		t.Errorf("without flags: exit %d, filter %v", got.exit, asked)
	}
	for _, args := range [][]string{{"--state", "done"}, {"--label", "a"}} {
		if got := easelRun(t.Context(), dial, append([]string{"list"}, args...)...); got.exit != ExitUsage {
			t.Errorf("%q: exit %d, printed\n%s%s", args, got.exit, got.stdout, got.stderr)
		}
	}
}

func TestOrderCarriesItsLabels(t *testing.T) {
	o := &orders{}
	got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "--label", "campaign=spring sale", "--label", "job=7")
	if want := map[string]string{"campaign": "spring sale", "job": "7"}; got.exit != ExitOK || len(o.got) != 1 || !maps.Equal(o.got[0].Labels, want) {
		t.Errorf("exit %d, orders %v\n%s", got.exit, o.got, got.stderr)
	}
	if got := easelRun(t.Context(), (&orders{}).serve(t), "generate", "studio/any", "--label", "spring"); got.exit != ExitUsage {
		t.Errorf("an invalid label: exit %d\n%s", got.exit, got.stderr)
	}
}
