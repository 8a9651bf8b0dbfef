package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/orders"
)

// resultsTimeout is the maximum time that ListGenerations waits for the catalog's list. The results and inputs of
// generations are only in that list, not in the ledger.
const resultsTimeout = 5 * time.Second

// ListGenerations first lists the generations that have an order in the ledger. Later pages list the generations in the
// catalog that have no order, unless the list is restricted to an owner or to labels.
func (s *generations) ListGenerations(ctx context.Context, req *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	filter, err := ledgerFilter(ctx, req.GetFilter())
	if err != nil {
		return nil, err
	}
	kind, unordered := listKind("orders", filter.Owner, req.GetFilter()), listKind("unordered", filter.Owner, req.GetFilter())
	hasUnordered := !mustHide(ctx, filter.Owner) && len(filter.Labels) == 0
	if last, ok := readToken(unordered, req.GetPageToken()); ok && hasUnordered {
		return s.listUnordered(ctx, req, unordered, last)
	}
	after, err := readPosition(kind, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	recorded, err := s.cfg.Orders.List(ctx, filter, after, size+1) // one extra row shows whether there is another page
	if err != nil {
		return nil, err
	}
	if len(recorded) == 0 && hasUnordered {
		return s.listUnordered(ctx, req, unordered, "")
	}
	out := &easelv1.ListGenerationsResponse{}
	listed := s.catalogList(ctx, min(len(recorded), size))
	switch {
	case len(recorded) > size:
		recorded = recorded[:size]
		out.NextPageToken = writePosition(kind, recorded[size-1].Position)
	case hasUnordered && (listed == nil || s.areUnordered(ctx, listed, req.GetFilter())):
		out.NextPageToken = writeToken(unordered, "")
	}
	if out.Generations = s.withResults(ctx, recorded, listed); len(out.GetGenerations()) < len(recorded) {
		out.NextPageToken = writePosition(kind, recorded[len(out.GetGenerations())-1].Position)
	}
	return out, nil
}

// listUnordered lists the generations in the catalog that have no order. last is the ID of the last generation on the
// previous page. If it is empty, the list starts at the beginning.
func (s *generations) listUnordered(ctx context.Context, req *easelv1.ListGenerationsRequest, kind, last string) (*easelv1.ListGenerationsResponse, error) {
	listed, err := s.cfg.Catalog.List(ctx, auth.Of(ctx).APIKey, time.Time{})
	if err != nil {
		return nil, err
	}
	chosen, err := s.unorderedFilter(ctx, listed, req.GetFilter())
	if err != nil {
		return nil, err
	}
	token := ""
	if last != "" {
		token = req.GetPageToken()
	}
	items, next, err := page(listed.Records, chosen, func(g catalog.Version) string { return g.ID },
		func(g catalog.Version) *easelv1.Generation { return generationMessage(g.Generation, g.Etag) }, kind, req.GetPageSize(), token)
	return &easelv1.ListGenerationsResponse{Generations: items, NextPageToken: next}, err
}

// unorderedFilter returns a function that reports whether a generation in the catalog's list matches the filter and has no
// order in the ledger.
func (s *generations) unorderedFilter(ctx context.Context, listed *catalog.List, filter *easelv1.GenerationFilter) (func(catalog.Version) bool, error) {
	ids := make([]string, len(listed.Records))
	for n, g := range listed.Records {
		ids[n] = g.ID
	}
	ordered, err := s.cfg.Orders.Owned(ctx, viewer(ctx), ids...)
	return func(g catalog.Version) bool {
		_, known := ordered[g.ID]
		return !known && matchesFilter(filter, g.Generation)
	}, err
}

// areUnordered reports whether the catalog's list contains generations that match the filter and have no order. It also
// returns true if the ledger can't be read.
func (s *generations) areUnordered(ctx context.Context, listed *catalog.List, filter *easelv1.GenerationFilter) bool {
	chosen, err := s.unorderedFilter(ctx, listed, filter)
	return err != nil || slices.ContainsFunc(listed.Records, chosen)
}

// matchesFilter reports whether a generation from the catalog matches the model and the states of a filter.
func matchesFilter(filter *easelv1.GenerationFilter, g catalog.Generation) bool {
	return (filter.GetModelId() == "" || filter.GetModelId() == g.ModelID) &&
		(len(filter.GetStates()) == 0 || slices.Contains(filter.GetStates(), states[g.State]))
}

// recordedStates maps the contract's states to the ledger's statuses. A generation whose state was never recorded
// counts as queued.
var recordedStates = map[easelv1.State][]lifecycle.Status{
	easelv1.State_STATE_QUEUED:       {lifecycle.Unseen, lifecycle.Queued},
	easelv1.State_STATE_RUNNING:      {lifecycle.Running},
	easelv1.State_STATE_FAILED:       {lifecycle.Failed},
	easelv1.State_STATE_SUCCEEDED:    {lifecycle.Succeeded},
	easelv1.State_STATE_REFUNDED:     {lifecycle.Refunded},
	easelv1.State_STATE_UNRECOGNIZED: {-1}, // matches no row, because the ledger never records this state
}

// ledgerFilter converts the filter of a request to a ledger filter.
func ledgerFilter(ctx context.Context, filter *easelv1.GenerationFilter) (ledger.Filter, error) {
	f := ledger.Filter{Owner: viewer(ctx), ModelID: filter.GetModelId(), Labels: filter.GetLabels()}
	if owner := filter.GetOwner(); owner != "" {
		if !auth.Of(ctx).Operator {
			return f, InvalidRequest(Violation{Field: "filter.owner", Description: "only an operator may select an owner; omit owner to list your own renders"})
		}
		f.Owner = &owner
	}
	for _, state := range filter.GetStates() {
		f.Statuses = append(f.Statuses, recordedStates[state]...)
		f.Deleted = f.Deleted || state == easelv1.State_STATE_DELETED
	}
	f.Existing = len(filter.GetStates()) == 0
	return f, nil
}

// withResults converts recorded generations to messages, and stops when the response is full. It adds the inputs and
// results from the catalog's list. If this list contains a later state of a generation, withResults records the later
// state in the ledger. The message still contains the earlier state, to which the filter was applied.
func (s *generations) withResults(ctx context.Context, recorded []orders.Listed, listed *catalog.List) (all []*easelv1.Generation) {
	s.cfg.Orders.ListedLater(ctx, auth.Of(ctx).APIKey, recorded, listed)
	left := maxRecord
	for _, r := range recorded {
		g := r.Generation
		if newest, ok := listed.Find(g.ID); ok {
			g.Inputs, g.Omitted = newest.Inputs, newest.Omitted // the fields set here come from the list; all others keep their recorded values
			if g.State == catalog.StateSucceeded && newest.State == catalog.StateSucceeded {
				g.Text, g.File = newest.Text, newest.File
			}
		}
		message := addAttribution(generationMessage(g, r.Etag), r.Attribution)
		if left -= proto.Size(message) + fieldCost; left < 0 && len(all) > 0 {
			return all
		}
		all = append(all, message)
	}
	return all
}

// catalogList returns the catalog's list, or nil if the list can't be read within [resultsTimeout]. lookupCount is the number
// of generations that the caller will look up in the list. If it is 0, catalogList sends no request and returns nil.
func (s *generations) catalogList(ctx context.Context, lookupCount int) *catalog.List {
	if lookupCount == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resultsTimeout)
	defer cancel()
	listed, err := s.cfg.Catalog.List(ctx, auth.Of(ctx).APIKey, time.Time{})
	if err != nil {
		return nil
	}
	return listed
}

// listKind returns the prefix that identifies a list in its page tokens. The prefix depends on the owner and on all
// filters, so that a token from another list is invalid.
func listKind(name string, owner *string, query proto.Message) string {
	digest := sha256.New()
	if owner != nil {
		digest.Write(strconv.AppendQuote(nil, *owner))
	}
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(query) // cannot fail, because the message was decoded from a valid request
	digest.Write(text)
	return name + " " + hex.EncodeToString(digest.Sum(nil)[:8])
}

func writePosition(kind string, p ledger.Position) string {
	return writeToken(kind, fmt.Sprintf("%d %s", p.Time.UnixMicro(), p.ID))
}

// readPosition returns the ledger position in a page token. The next page starts after this position.
func readPosition(kind, token string) (p ledger.Position, err error) {
	if token == "" {
		return p, nil
	}
	text, ok := readToken(kind, token)
	micros := int64(0)
	if _, err := fmt.Sscanf(text, "%d %s", &micros, &p.ID); !ok || err != nil {
		return p, errForeignToken
	}
	p.Time = time.UnixMicro(micros)
	return p, nil
}
