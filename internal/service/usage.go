package service

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// ListUsage returns the numbers and costs of orders, grouped by the requested dimensions.
func (s *accounts) ListUsage(ctx context.Context, req *easelv1.ListUsageRequest) (*easelv1.ListUsageResponse, error) {
	query, kind, err := usageQuery(ctx, req)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	query.Most = size + 1 // one extra row shows whether there is another page
	rows, err := s.cfg.Orders.Ledger.Usage(ctx, query)
	if err != nil {
		return nil, err
	}
	if cred := auth.Of(ctx).APIKey; len(rows) == 0 && req.GetPageToken() == "" && !cred.IsShared() {
		if _, err := s.cfg.Catalog.Account(ctx, cred); err != nil { // the ledger does not know whether the API key is valid, so ask the catalog
			return nil, err
		}
	}
	out := &easelv1.ListUsageResponse{}
	if len(rows) > size {
		rows = rows[:size]
		last, _ := json.Marshal(rows[size-1].Dimensions) // cannot fail for strings
		out.NextPageToken = writeToken(kind, string(last))
	}
	for _, row := range rows {
		out.Rows = append(out.Rows, usageRow(row, query.By, auth.Of(ctx).SharesAPIKey()))
	}
	return out, nil
}

// usageQuery converts a request to a ledger query. kind is the prefix that identifies the query in its page tokens.
func usageQuery(ctx context.Context, req *easelv1.ListUsageRequest) (q ledger.UsageQuery, kind string, err error) {
	q = ledger.UsageQuery{Owner: viewer(ctx), End: time.UnixMicro(math.MaxInt64), LabelName: req.GetLabelName()}
	if req.GetStartTime() != nil {
		q.Start = req.GetStartTime().AsTime()
	}
	if req.GetEndTime() != nil {
		q.End = req.GetEndTime().AsTime()
	}
	for _, d := range req.GetGroupBy() {
		q.By = append(q.By, dimensions[d])
	}
	query := proto.CloneOf(req)
	query.PageSize, query.PageToken = 0, ""
	kind = listKind("usage", q.Owner, query)
	if req.GetPageToken() == "" {
		return q, kind, nil
	}
	last, ok := readToken(kind, req.GetPageToken())
	if !ok || json.Unmarshal([]byte(last), &q.After) != nil || len(q.After) != len(q.By) || strings.ContainsRune(strings.Join(q.After, ""), 0) {
		return q, kind, errForeignToken
	}
	return q, kind, nil
}

var dimensions = map[easelv1.UsageDimension]ledger.Dimension{
	easelv1.UsageDimension_USAGE_DIMENSION_DAY:    ledger.ByDay,
	easelv1.UsageDimension_USAGE_DIMENSION_OWNER:  ledger.ByOwner,
	easelv1.UsageDimension_USAGE_DIMENSION_CALLER: ledger.ByCaller,
	easelv1.UsageDimension_USAGE_DIMENSION_MODEL:  ledger.ByModel,
	easelv1.UsageDimension_USAGE_DIMENSION_LABEL:  ledger.ByLabel,
}

// usageRow converts a row to a message. The message contains the owner if includeOwner is true. With forwarded API
// keys, includeOwner must be false, because the owner is a digest of an API key.
func usageRow(u ledger.Usage, by []ledger.Dimension, includeOwner bool) *easelv1.UsageRow {
	row := &easelv1.UsageRow{
		OrderCount: u.Orders, FailedCount: u.Failed, UnknownCount: u.Unknown,
		CostCents: u.CostCents, RefundedCents: u.RefundedCents, ReservedCents: u.ReservedCents, UnconfirmedCents: u.UnconfirmedCents,
		CurrencyCode: catalog.CurrencyCode,
	}
	for n, d := range by {
		value := u.Dimensions[n]
		switch d {
		case ledger.ByDay:
			row.Day = value
		case ledger.ByOwner:
			if includeOwner {
				row.Owner = value
			}
		case ledger.ByCaller:
			row.Caller = value
		case ledger.ByModel:
			row.ModelId = value
		case ledger.ByLabel:
			row.LabelValue = value
		}
	}
	return row
}

func budgetMessages(all []ledger.Budget) (out []*easelv1.Budget) {
	for _, b := range all {
		out = append(out, &easelv1.Budget{
			Window: windows[b.Period], LimitCents: b.LimitCents, SpentCents: b.SpentCents, ReservedCents: b.ReservedCents,
			StartTime: timestamp(b.Start), ResetTime: timestamp(b.Reset), CurrencyCode: catalog.CurrencyCode,
		})
	}
	return out
}

var windows = map[string]easelv1.BudgetWindow{
	"day":   easelv1.BudgetWindow_BUDGET_WINDOW_DAY,
	"month": easelv1.BudgetWindow_BUDGET_WINDOW_MONTH,
}
