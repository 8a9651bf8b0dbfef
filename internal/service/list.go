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

// resultsTimeout is how long a list of the ledger waits for the catalog, which has the results.
const resultsTimeout = 5 * time.Second

// ListGenerations lists what the ledger has. The last pages tell of what the catalog lists and the ledger does not know,
// unless the ledger says who sees what.
func (s *generations) ListGenerations(ctx context.Context, req *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	filter, err := ledgerFilter(ctx, req.GetFilter())
	if err != nil {
		return nil, err
	}
	kind, unordered := listKind("orders", filter.Owner, req.GetFilter()), listKind("unordered", filter.Owner, req.GetFilter())
	hasUnordered := !hides(ctx, filter.Owner) && len(filter.Labels) == 0
	if last, ok := readToken(unordered, req.GetPageToken()); ok && hasUnordered {
		return s.listUnordered(ctx, req, unordered, last)
	}
	after, err := readPosition(kind, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	recorded, err := s.cfg.Orders.List(ctx, filter, after, size+1) // one more tells whether there is another page
	if err != nil {
		return nil, err
	}
	if len(recorded) == 0 && hasUnordered {
		return s.listUnordered(ctx, req, unordered, "")
	}
	out := &easelv1.ListGenerationsResponse{}
	listed := s.listed(ctx, min(len(recorded), size))
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

// listUnordered lists what the catalog lists and the ledger does not know, after a generation or from the beginning.
func (s *generations) listUnordered(ctx context.Context, req *easelv1.ListGenerationsRequest, kind, last string) (*easelv1.ListGenerationsResponse, error) {
	listed, err := s.cfg.Catalog.List(ctx, auth.Of(ctx).APIKey, time.Time{})
	if err != nil {
		return nil, err
	}
	chosen, err := s.unordered(ctx, listed, req.GetFilter())
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

// unordered tells which generations of the catalog's list a filter chooses and the ledger does not know.
func (s *generations) unordered(ctx context.Context, listed *catalog.List, filter *easelv1.GenerationFilter) (func(catalog.Version) bool, error) {
	ids := make([]string, len(listed.Records))
	for n, g := range listed.Records {
		ids[n] = g.ID
	}
	ordered, err := s.cfg.Orders.Owned(ctx, viewer(ctx), ids...)
	return func(g catalog.Version) bool {
		_, known := ordered[g.ID]
		return !known && chooses(filter, g.Generation)
	}, err
}

// areUnordered reports whether there may be any of them.
func (s *generations) areUnordered(ctx context.Context, listed *catalog.List, filter *easelv1.GenerationFilter) bool {
	chosen, err := s.unordered(ctx, listed, filter)
	return err != nil || slices.ContainsFunc(listed.Records, chosen)
}

// chooses reports whether a filter chooses a generation by what the catalog says of it.
func chooses(filter *easelv1.GenerationFilter, g catalog.Generation) bool {
	return (filter.GetModelId() == "" || filter.GetModelId() == g.ModelID) &&
		(len(filter.GetStates()) == 0 || slices.Contains(filter.GetStates(), states[g.State]))
}

// recordedStates are the states of the ledger, by those of the contract. A generation of which no state that is
// known was recorded yet is queued.
var recordedStates = map[easelv1.State][]lifecycle.Status{
	easelv1.State_STATE_QUEUED:       {lifecycle.Unseen, lifecycle.Queued},
	easelv1.State_STATE_RUNNING:      {lifecycle.Running},
	easelv1.State_STATE_FAILED:       {lifecycle.Failed},
	easelv1.State_STATE_SUCCEEDED:    {lifecycle.Succeeded},
	easelv1.State_STATE_REFUNDED:     {lifecycle.Refunded},
	easelv1.State_STATE_UNRECOGNIZED: {-1}, // none: the ledger keeps the last state that is known
}

// ledgerFilter is a filter in the words of the ledger.
func ledgerFilter(ctx context.Context, filter *easelv1.GenerationFilter) (ledger.Filter, error) {
	f := ledger.Filter{Owner: viewer(ctx), ModelID: filter.GetModelId(), Labels: filter.GetLabels()}
	if owner := filter.GetOwner(); owner != "" {
		if !auth.Of(ctx).Operator {
			return f, InvalidRequest(Violation{Field: "filter.owner", Description: "only an operator may choose an owner: without it the list has your own"})
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

// withResults are the messages of recorded generations, with inputs and results where the catalog lists them: as many as an
// answer has room for. A later state that it lists is for the ledger: the list has those that it can filter by.
func (s *generations) withResults(ctx context.Context, recorded []orders.Listed, listed *catalog.List) (all []*easelv1.Generation) {
	left := maxRecord
	for _, r := range recorded {
		g := r.Generation
		if newest, ok := listed.Find(g.ID); ok {
			s.cfg.Orders.ListedLater(auth.Of(ctx).APIKey, r, newest)
			g.Inputs, g.Omitted = newest.Inputs, newest.Omitted // all else is as it was recorded
			if g.State == catalog.StateSucceeded && newest.State == catalog.StateSucceeded {
				g.Text, g.File = newest.Text, newest.File
			}
		}
		message := attributed(generationMessage(g, r.Etag), r.Attribution)
		if left -= proto.Size(message) + fieldCost; left < 0 && len(all) > 0 {
			return all
		}
		all = append(all, message)
	}
	return all
}

// listed is what the catalog lists; nil where it does not answer. It is not asked for nothing.
func (s *generations) listed(ctx context.Context, wanted int) *catalog.List {
	if wanted == 0 {
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

// listKind names a list in its page tokens by all that chooses its rows: a token is of no use for another list.
func listKind(name string, owner *string, query proto.Message) string {
	digest := sha256.New()
	if owner != nil {
		digest.Write(strconv.AppendQuote(nil, *owner))
	}
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(query) // it was valid on the wire
	digest.Write(text)
	return name + " " + hex.EncodeToString(digest.Sum(nil)[:8])
}

func writePosition(kind string, p ledger.Position) string {
	return writeToken(kind, fmt.Sprintf("%d %s", p.Time.UnixMicro(), p.ID))
}

// readPosition is where the page of a token begins.
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
