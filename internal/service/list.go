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
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

// resultsTimeout is how long a list of the ledger waits for the catalog, which has the results.
const resultsTimeout = 5 * time.Second

// ListGenerations lists what the ledger has, and without one what the catalog lists.
func (s *generations) ListGenerations(ctx context.Context, req *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	if s.cfg.Orders == nil {
		return s.listOfCatalog(ctx, req)
	}
	filter, err := ledgerFilter(ctx, req.GetFilter())
	if err != nil {
		return nil, err
	}
	kind := listKind("orders", filter.Owner, req.GetFilter())
	after, err := readPosition(kind, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Orders.Proven(ctx, credential(ctx)); err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	recorded, err := s.cfg.Orders.List(ctx, filter, after, size+1) // one more tells whether there is another page
	if err != nil {
		return nil, err
	}
	out := &easelv1.ListGenerationsResponse{}
	if len(recorded) > size {
		recorded = recorded[:size]
		out.NextPageToken = writePosition(kind, recorded[size-1].Position)
	}
	out.Generations = s.withResults(ctx, recorded)
	return out, nil
}

// listOfCatalog lists what the catalog lists.
func (s *generations) listOfCatalog(ctx context.Context, req *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	filter := req.GetFilter()
	if len(filter.GetLabels()) > 0 || filter.GetOwner() != "" {
		return nil, errNoLedger("filters by label and owner")
	}
	all, err := s.cfg.Catalog.Generations(ctx, credential(ctx))
	if err != nil {
		return nil, err
	}
	chosen := func(g catalog.Version) bool { return chooses(filter, g.Generation) }
	id := func(g catalog.Version) string { return g.ID }
	items, next, err := page(all, chosen, id, listKind("generations", nil, filter), req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &easelv1.ListGenerationsResponse{NextPageToken: next}
	for _, g := range items {
		out.Generations = append(out.Generations, generationMessage(g.Generation, g.Etag))
	}
	return out, nil
}

// chooses reports whether a filter chooses a generation by what the catalog says of it.
func chooses(filter *easelv1.GenerationFilter, g catalog.Generation) bool {
	return (filter.GetModelId() == "" || filter.GetModelId() == g.ModelID) &&
		(len(filter.GetStates()) == 0 || slices.Contains(filter.GetStates(), states[g.State]))
}

// recordedStates are the states of the ledger, by those of the contract. A generation of which no state that is
// known was recorded yet is queued.
var recordedStates = map[easelv1.State][]ledger.Status{
	easelv1.State_STATE_QUEUED:       {ledger.Unseen, ledger.Queued},
	easelv1.State_STATE_RUNNING:      {ledger.Running},
	easelv1.State_STATE_FAILED:       {ledger.Failed},
	easelv1.State_STATE_SUCCEEDED:    {ledger.Succeeded},
	easelv1.State_STATE_REFUNDED:     {ledger.Refunded},
	easelv1.State_STATE_UNRECOGNIZED: {-1}, // none: the ledger keeps the last state that is known
}

// ledgerFilter is a filter in the words of the ledger.
func ledgerFilter(ctx context.Context, filter *easelv1.GenerationFilter) (ledger.Filter, error) {
	f := ledger.Filter{Owner: viewer(ctx), ModelID: filter.GetModelId(), Labels: filter.GetLabels()}
	if owner := filter.GetOwner(); owner != "" {
		if !who(ctx).operator {
			return f, InvalidRequest(Violation{"filter.owner", "only an operator may choose an owner: without it the list has your own"})
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

// withResults are the messages of recorded generations, with inputs and results where the catalog lists them.
func (s *generations) withResults(ctx context.Context, recorded []orders.Listed) (all []*easelv1.Generation) {
	listed := s.listed(ctx, len(recorded))
	for _, r := range recorded {
		g := r.Generation
		if newest, ok := listed[g.ID]; ok {
			g.Inputs = newest.Inputs
			if g.State == catalog.StateSucceeded && newest.State == catalog.StateSucceeded {
				g.Text, g.File = newest.Text, newest.File
			}
		}
		all = append(all, attributed(generationMessage(g, g.Etag()), r.Attribution))
	}
	return all
}

// listed is what the catalog lists, by id. It is empty where the catalog does not answer, and is not asked for
// nothing.
func (s *generations) listed(ctx context.Context, wanted int) map[string]catalog.Version {
	if wanted == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resultsTimeout)
	defer cancel()
	all, err := s.cfg.Catalog.Generations(ctx, credential(ctx))
	if err != nil {
		return nil
	}
	byID := make(map[string]catalog.Version, len(all))
	for _, g := range all {
		byID[g.ID] = g
	}
	return byID
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
