package catalog

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/gate"
)

// maxRemembered is the largest list whose records are remembered, in bytes of its body. Its decoded records take a few
// times as much.
const maxRemembered = 1 << 20

// List is what the catalog lists of an API key, in its order, each generation once. All callers of a second share it, so
// nobody may change it.
type List struct {
	Records []Version
	Cut     bool // it was too long: the rest is missing

	places map[string]int // in Records, by id
}

// NewList makes a list of records, of which the first of each generation counts.
func NewList(records []Version) *List {
	l := &List{Records: make([]Version, 0, len(records)), places: make(map[string]int, len(records))}
	for _, v := range records {
		if _, twice := l.places[v.ID]; !twice {
			l.places[v.ID] = len(l.Records)
			l.Records = append(l.Records, v)
		}
	}
	return l
}

// Find gives the record of a generation, if there is one.
func (l *List) Find(id string) (v Version, ok bool) {
	if l == nil {
		return v, false
	}
	place, ok := l.places[id]
	if ok {
		v = l.Records[place]
	}
	return v, ok
}

// List lists the recent generations of the API key. The catalog does not say how far back the list goes. One list of an API
// key is read at a time, and serves all who ask for one within a second after it began, but nobody who asks for one that
// began later: not before since.
//
// A record may leave out members that are large. A list that is too long has the records that came first.
func (c *Client) List(ctx context.Context, cred Credential, since time.Time) (*List, error) {
	var list *List
	err := c.upstream.retry(ctx, cred, func(ctx context.Context) (err error) {
		list, err = c.lists.get(ctx, c, cred, since)
		return err
	})
	return list, err
}

// listForAll makes the request of a list that serves all who wait for one, with the help of the last one. It waits at the
// gate until a time, and calls leaves when it has a turn. It outlives the caller that began it.
func (c *Client) listForAll(ctx context.Context, until time.Time, cred Credential, last remembered, leaves func()) (list *List, next remembered, err error) {
	cred.Owner, cred.Weight = "", 0
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if !until.IsZero() {
		waiting, cancel = context.WithDeadline(ctx, until)
	}
	turn, err := c.upstream.enter(waiting, cred, opGenerations)
	cancel()
	if err != nil {
		return nil, last, err
	}
	leaves()
	a, err := c.upstream.attemptInTurn(ctx, turn, cred, &request{op: opGenerations})
	if err != nil {
		return nil, last, err
	}
	err = gate.Work(ctx, cred.Sharer(), len(a.body), func() (err error) {
		list, next, err = readList(a, last)
		return err
	})
	return list, next, notEntered(opGenerations, err)
}

// remembered are decoded records by their bytes, without an API key: a held one may be rotated.
type remembered struct {
	without string
	records map[string]Version
}

// readList reads a list. It does not decode those records again that it has by their bytes, and gives those of this one. A
// record without an id is passed over as long as others have one: one odd record must not hide the others.
func readList(a answer, last remembered) (*List, remembered, error) {
	items, err := a.list(generationListNames, generationWeights)
	if err != nil {
		return nil, last, err
	}
	all, next := make([]Version, 0, len(items)), remembered{a.redactor.secret(), make(map[string]Version, len(items))}
	if last.without != next.without {
		last.records = nil
	}
	for _, item := range items {
		one, ok := last.records[string(item)]
		if !ok {
			one, ok = readItem(a, item)
		}
		if !ok {
			continue
		}
		one.ObserveTime = a.time
		all = append(all, one)
		if len(a.body) <= maxRemembered {
			next.records[string(item)] = one
		}
	}
	if len(all) == 0 && (len(items) > 0 || a.cut) {
		return nil, last, a.malformed("no record of the list has a readable identifier")
	}
	list := NewList(all)
	list.Cut = a.cut
	return list, next, nil
}

// readItem reads an item of a list.
func readItem(a answer, item JSON) (Version, bool) {
	r, _, ok := findGeneration(a.redactor.redact(item), "")
	if !ok {
		return Version{}, false
	}
	g, ok := newGeneration(a, r, "")
	if !ok {
		return Version{}, false
	}
	return g.Version(), true
}
