package easel

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// State is the state of a render.
type State int32

// The states. A newer server may send other states.
const (
	StateQueued       = State(easelv1.State_STATE_QUEUED)
	StateRunning      = State(easelv1.State_STATE_RUNNING)
	StateSucceeded    = State(easelv1.State_STATE_SUCCEEDED)
	StateFailed       = State(easelv1.State_STATE_FAILED)
	StateRefunded     = State(easelv1.State_STATE_REFUNDED)
	StateDeleted      = State(easelv1.State_STATE_DELETED)
	StateUnrecognized = State(easelv1.State_STATE_UNRECOGNIZED)
)

// String returns the name of a state, such as SUCCEEDED or unknown(9).
func (s State) String() string {
	if name, known := easelv1.State_name[int32(s)]; known {
		return strings.TrimPrefix(name, "STATE_")
	}
	return fmt.Sprintf("unknown(%d)", int32(s))
}

// Render is the state of a paid render at one point in time. The contract calls a render a generation.
type Render struct {
	GenerationID     string
	ModelID          string
	State            State
	Terminal         bool
	CostCents        *int64 // nil if unknown
	CurrencyCode     string
	Text             string // result of a model whose output is text
	File             *File  // result of a model whose output is a file; Download downloads it
	FailureMessage   string
	CreateTime       time.Time
	TerminalTime     time.Time
	ObserveTime      time.Time
	Etag             string
	Owner, Caller    string
	Labels           map[string]string
	TypicalRemaining time.Duration       // estimated remaining time, from the watch's last heartbeat; zero if unknown
	Raw              *easelv1.Generation // original message, with all fields
}

// File describes the file that a render produced.
type File struct {
	ContentType string
	SizeBytes   *int64
}

func renderOf(g *easelv1.Generation) *Render {
	r := &Render{
		GenerationID: g.GetGenerationId(), ModelID: g.GetModelId(), State: State(g.GetState()), Terminal: g.GetTerminal(),
		CostCents: g.CostCents, CurrencyCode: g.GetCurrencyCode(), Text: g.GetText().GetText(), FailureMessage: g.GetFailureMessage(),
		CreateTime: timeOf(g.GetCreateTime()), TerminalTime: timeOf(g.GetTerminalTime()), ObserveTime: timeOf(g.GetObserveTime()),
		Etag: g.GetEtag(), Owner: g.GetOwner(), Caller: g.GetCaller(), Labels: g.GetLabels(), Raw: g,
	}
	if file := g.GetFile(); file != nil {
		r.File = &File{file.GetContentType(), file.SizeBytes}
	}
	return r
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// Account is the state of the account at one point in time.
type Account struct {
	BalanceCents *int64 // nil if the caller may not see it
	CurrencyCode string
	Budgets      []Budget
	ObserveTime  time.Time
	Raw          *easelv1.Account
}

// Budget is the spending limit of a team, or of a caller without a team, for the current day or month, and the amounts spent
// and reserved.
type Budget struct {
	Window                                string // DAY or MONTH
	LimitCents, SpentCents, ReservedCents int64
	StartTime, ResetTime                  time.Time
}

func accountOf(a *easelv1.Account) *Account {
	account := &Account{BalanceCents: a.BalanceCents, CurrencyCode: a.GetCurrencyCode(), ObserveTime: timeOf(a.GetObserveTime()), Raw: a}
	for _, b := range a.GetBudgets() {
		account.Budgets = append(account.Budgets, budgetOf(b))
	}
	return account
}

func budgetOf(b *easelv1.Budget) Budget {
	return Budget{
		strings.TrimPrefix(b.GetWindow().String(), "BUDGET_WINDOW_"), b.GetLimitCents(), b.GetSpentCents(), b.GetReservedCents(),
		timeOf(b.GetStartTime()), timeOf(b.GetResetTime()),
	}
}

// Heartbeat is a message that a watch receives while there are no updates.
type Heartbeat struct {
	GenerationID     string // empty for a watch of many generations
	Condition        string // condition of the catalog, as observed by the server: HEALTHY, THROTTLED, UNREACHABLE or CREDENTIAL_REJECTED
	ObserveTime      time.Time
	NextPollTime     time.Time
	PollFailures     int // number of consecutive polls of the catalog that failed
	LastError        string
	TypicalRemaining time.Duration // zero if unknown
}

func heartbeatOf(id string, h *easelv1.Heartbeat) *Heartbeat {
	return &Heartbeat{
		id, strings.TrimPrefix(h.GetUpstreamCondition().String(), "UPSTREAM_CONDITION_"), timeOf(h.GetObserveTime()), timeOf(h.GetNextPollTime()),
		int(h.GetConsecutivePollFailures()), h.GetLastError(), h.GetTypicalRemaining().AsDuration(),
	}
}

// Model describes a model in the catalog.
type Model struct {
	ModelID     string
	DisplayName string
	Description string
	OutputKind  string       // FILE or TEXT; empty if the catalog does not specify it
	InputFields []InputField // Client.Models may omit the fields; Client.Model returns them
	ObserveTime time.Time
	Raw         *easelv1.Model
}

// InputField describes one input of a model.
type InputField struct {
	Name, DisplayName, Description string
	Type                           string   // STRING, INTEGER, NUMBER, BOOLEAN, OBJECT or ARRAY; empty if the catalog does not specify it
	Required                       *bool    // nil if the catalog does not specify it
	Default                        any      // nil if the input has no default
	Allowed                        []any    // empty if every value of the type is allowed
	Minimum, Maximum               *float64 // nil if there is no limit
}

func modelOf(m *easelv1.Model) *Model {
	model := &Model{
		ModelID: m.GetModelId(), DisplayName: m.GetDisplayName(), Description: m.GetDescription(),
		OutputKind: nameOf(m.GetOutputKind(), "OUTPUT_KIND_"), ObserveTime: timeOf(m.GetObserveTime()), Raw: m,
	}
	for _, f := range m.GetInputFields() {
		field := InputField{
			f.GetName(), f.GetDisplayName(), f.GetDescription(), nameOf(f.GetType(), "INPUT_FIELD_TYPE_"),
			f.Required, f.GetDefaultValue().AsInterface(), nil, f.Minimum, f.Maximum,
		}
		for _, value := range f.GetAllowedValues() {
			field.Allowed = append(field.Allowed, value.AsInterface())
		}
		model.InputFields = append(model.InputFields, field)
	}
	return model
}

// nameOf returns the name of an enum value without the given prefix, or "" for the value UNSPECIFIED.
func nameOf(value fmt.Stringer, prefix string) string {
	return strings.TrimPrefix(strings.TrimPrefix(value.String(), prefix), "UNSPECIFIED")
}

// Quote is the current price of a render. A later order may have a different price.
type Quote struct {
	PriceCents   int64
	CurrencyCode string
	QuoteTime    time.Time
	BalanceCents *int64 // nil if unknown
	Affordable   *bool  // whether the balance covers the price; nil if the balance is unknown
	Raw          *easelv1.Quote
}

func quoteOf(q *easelv1.Quote) *Quote {
	return &Quote{q.GetPriceCents(), q.GetCurrencyCode(), timeOf(q.GetQuoteTime()), q.BalanceCents, q.Affordable, q}
}

// UsageRow contains the number and the costs of the orders that have the same value in each requested
// dimension.
type UsageRow struct {
	Day, Owner, Caller, ModelID, LabelValue                   string
	OrderCount, FailedCount, UnknownCount                     int64
	CostCents, RefundedCents, ReservedCents, UnconfirmedCents int64
	CurrencyCode                                              string
	Raw                                                       *easelv1.UsageRow
}

func usageRowOf(r *easelv1.UsageRow) *UsageRow {
	return &UsageRow{
		r.GetDay(), r.GetOwner(), r.GetCaller(), r.GetModelId(), r.GetLabelValue(), r.GetOrderCount(), r.GetFailedCount(), r.GetUnknownCount(),
		r.GetCostCents(), r.GetRefundedCents(), r.GetReservedCents(), r.GetUnconfirmedCents(), r.GetCurrencyCode(), r,
	}
}
