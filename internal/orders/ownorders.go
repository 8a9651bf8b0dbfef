package orders

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	// maxCovered is how many of the newest orders, and of those whose money may still move, the ledger is asked for.
	maxCovered = 10_000
	// newestPage is how many orders one question asks for.
	newestPage = 1000
	// namedWithin is how much older than the newest known order one may be that is new: it is found when it is named.
	namedWithin = 10 * time.Second
	// askedFor is the time in which the ledger is asked for the owner of a listed generation, and askedEvery the interval: the
	// catalog may list a generation before the ledger knows it.
	askedFor, askedEvery = time.Minute, 10 * time.Second
)

// OwnOrders are the orders of an owner, or of everybody, as the ledger knows them: for all who watch everything of
// theirs. The newest are kept, and those whose money may still move. Of the others, those that somebody looks for are
// asked for at the next read.
type OwnOrders struct {
	orders *Orders
	cred   catalog.Credential
	owner  *string   // nil: everybody
	newest time.Time // of the orders that the ledger has given
	erased string    // the erasures before the attributions were read

	mu            sync.Mutex
	recent, older map[string]ledger.Attribution // keyed by generation id; the older are forgotten when there are many recent ones
	unsettled     []string
	unknown       map[string]sought
}

// sought is a generation that was looked for.
type sought struct{ first, next time.Time } // times of the first search and of the next question to the ledger

// OwnOrders gives the orders of an owner, or where that is nil of everybody, under a credential. Nothing was read yet.
func (o *Orders) OwnOrders(cred catalog.Credential, owner *string) *OwnOrders {
	return &OwnOrders{orders: o, cred: cred, owner: owner, unknown: map[string]sought{}}
}

// answer is what the ledger has answered.
type answer struct {
	newest, unsettled []Listed
	listed            map[string]ledger.Attribution // those that were looked for
}

// Read reads what the ledger knows by now, and lets the hub know of what is new. One read is made at a time.
func (o *OwnOrders) Read(ctx context.Context) (*OwnOrders, error) {
	found, err := o.ask(ctx)
	if err == nil {
		o.orders.Hub.Discovered(o.cred, o.note(found)...)
	}
	return o, err
}

func (o *OwnOrders) ask(ctx context.Context) (found answer, err error) {
	erased, err := o.orders.Ledger.Erasures(ctx)
	if err != nil {
		return found, err
	}
	filter := ledger.Filter{Owner: o.owner, Existing: true}
	if !o.newest.IsZero() {
		filter.Since = o.newest.Add(-namedWithin)
	}
	if found.newest, err = o.orders.listNewest(ctx, filter); err != nil {
		return found, err
	}
	if found.unsettled, err = o.orders.listNewest(ctx, ledger.Filter{Owner: o.owner, Unsettled: true}); err != nil {
		return found, err
	}
	if found.listed, err = o.lookUp(ctx); err != nil {
		return found, err
	}
	if erased != o.erased { // erased labels must not be served again
		var known map[string]ledger.Attribution
		known, err = o.orders.Owned(ctx, o.owner, o.Known()...)
		maps.Copy(found.listed, known)
	}
	if err == nil {
		o.erased = erased
	}
	return found, err
}

// lookUp returns the attributions of the owner's generations that were looked for. Behind a shared API key it asks for the
// generations of all owners: a generation of another owner is not asked for again.
func (o *OwnOrders) lookUp(ctx context.Context) (own map[string]ledger.Attribution, err error) {
	ids := o.due(time.Now())
	asker := o.owner
	if o.cred.Held {
		asker = nil
	}
	own, err = o.orders.Owned(ctx, asker, ids...)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if _, known := own[id]; known {
			o.unknown[id] = sought{first: o.unknown[id].first, next: o.unknown[id].first.Add(askedFor)}
		}
	}
	maps.DeleteFunc(own, func(_ string, whose ledger.Attribution) bool { return o.owner != nil && whose.Owner != *o.owner })
	return own, err
}

// due returns the generations that the ledger is asked for now, and sets the time when they are asked for again.
func (o *OwnOrders) due(now time.Time) (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, s := range o.unknown {
		if !now.Before(s.next) {
			ids = append(ids, id)
			o.unknown[id] = sought{s.first, now.Add(askedEvery)}
		}
	}
	return ids
}

// note notes an answer, and gives the generations that are new since the first one.
func (o *OwnOrders) note(found answer) (fresh []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	begun := o.recent != nil
	if !begun || len(o.recent) >= maxCovered {
		o.recent, o.older = map[string]ledger.Attribution{}, o.recent
	}
	add := func(id string, whose ledger.Attribution) {
		if _, known := o.find(id); !known && begun {
			fresh = append(fresh, id)
		}
		o.recent[id] = whose
		delete(o.unknown, id)
	}
	o.unsettled = nil
	for _, order := range found.unsettled {
		add(order.ID, order.Attribution)
		o.unsettled = append(o.unsettled, order.ID)
	}
	for _, order := range found.newest {
		add(order.ID, order.Attribution)
	}
	if len(found.newest) > 0 {
		o.newest = found.newest[0].Position.Time
	}
	for id, whose := range found.listed {
		add(id, whose)
	}
	maps.DeleteFunc(o.unknown, func(_ string, s sought) bool { return time.Since(s.first) > askedFor })
	return fresh
}

// Whose says whose a generation is, as far as that is known without a question. Of one that is not known the ledger is
// asked at the next read.
func (o *OwnOrders) Whose(generationID string) (whose ledger.Attribution, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	whose, known = o.find(generationID)
	if _, asked := o.unknown[generationID]; !known && !asked && len(o.unknown) < maxCovered {
		o.unknown[generationID] = sought{first: time.Now()}
	}
	return whose, known
}

func (o *OwnOrders) find(id string) (whose ledger.Attribution, known bool) {
	if whose, known = o.recent[id]; !known {
		whose, known = o.older[id]
	}
	return whose, known
}

// Has reports whether a generation is one of theirs.
func (o *OwnOrders) Has(generationID string) bool {
	_, known := o.Whose(generationID)
	return known
}

// Known are the generations of the orders that are kept.
func (o *OwnOrders) Known() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(o.recent)), maps.Keys(o.older))
}

// Unsettled are the generations whose money may still move.
func (o *OwnOrders) Unsettled() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.unsettled)
}

// listNewest gives the newest orders that a filter chooses, page by page, and no more than a watch of everything covers.
func (o *Orders) listNewest(ctx context.Context, f ledger.Filter) (all []Listed, err error) {
	for after := (ledger.Position{}); len(all) < maxCovered; after = all[len(all)-1].Position {
		page, err := o.List(ctx, f, after, newestPage)
		all = append(all, page...)
		if err != nil || len(page) < newestPage {
			return all, err
		}
	}
	return all, nil
}
