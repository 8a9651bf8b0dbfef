package catalog

import (
	"context"
	"time"
)

const (
	// maxList is the maximum size of a list's response body, in bytes. maxKept is the maximum size of the records that the
	// client keeps from this list, in bytes.
	maxList = 32 << 20
	maxKept = 8 << 20
	// To leave space for more records in a list, a field of a record is omitted if it is longer than shortPart bytes and longer
	// than 1/partOfRoom of the remaining space.
	partOfRoom = 128
	shortPart  = 1 << 10
	// recordSize is the approximate size of a record in bytes, excluding its Inputs, Text and Extra.
	recordSize = 128
	// maxEnvelope is the maximum number of nested objects that may enclose the object with the list.
	maxEnvelope = 3
)

// List contains the generations of an API key, in the catalog's order. Each generation occurs once. Callers share a List, so
// they must not modify it.
type List struct {
	Records []Version
	Cut     bool // whether the records at the end of the list were dropped to limit memory

	indexes map[string]int // indexes in Records, keyed by generation ID
}

// NewList creates a list of records. It keeps only the first record of each generation.
func NewList(records []Version) *List {
	l := &List{Records: make([]Version, 0, len(records)), indexes: make(map[string]int, len(records))}
	for _, v := range records {
		if _, twice := l.indexes[v.ID]; !twice {
			l.indexes[v.ID] = len(l.Records)
			l.Records = append(l.Records, v)
		}
	}
	return l
}

// Find returns the record of the generation with the given ID. ok is false if the list has no record of this generation.
func (l *List) Find(id string) (v Version, ok bool) {
	if l == nil {
		return v, false
	}
	index, ok := l.indexes[id]
	if ok {
		v = l.Records[index]
	}
	return v, ok
}

// List returns the API key's recent generations. The catalog does not document how far back its list goes. For each API key,
// the client reads only one list at a time, and shares the result among all callers for one second. The returned list was
// requested at or after the given time.
//
// A record may omit large fields. If the records need too much memory, the last ones are dropped and Cut is set.
func (c *Client) List(ctx context.Context, cred Credential, since time.Time) (*List, error) {
	var list *List
	err := c.upstream.retryRequest(ctx, cred, func(ctx context.Context) (err error) {
		list, err = c.lists.recentList(ctx, c, cred, since)
		return err
	})
	return list, err
}

// requestList requests the list. Several owners may wait for the result, so the limiter treats the request as one without
// an owner.
func (c *Client) requestList(ctx context.Context, cred Credential) (r listRead) {
	cred.Owner, cred.Weight = "", 0
	permit, err := c.upstream.acquire(ctx, cred, opGenerations)
	if err != nil {
		return listRead{err: err}
	}
	r.start = time.Now()
	r.err = c.upstream.attemptWith(ctx, permit, cred, &request{op: opGenerations}, func(a answer) (err error) {
		r.list, err = readList(a)
		return err
	})
	return r
}

// readList reads a list. It skips records without a readable ID, and returns an error if all records lack one.
func readList(a answer) (*List, error) {
	items, err := a.list(generationListNames, generationWeights)
	if err != nil {
		return nil, err
	}
	all := make([]Version, 0, len(items))
	cut, room := false, maxKept
	for _, item := range items {
		one, ok := readItem(a, item, room)
		if !ok {
			continue
		}
		if room -= one.size(); room < 0 {
			cut = true
			break
		}
		all = append(all, one)
	}
	if len(all) == 0 && len(items) > 0 {
		return nil, a.malformedError("no record in the list has a readable ID")
	}
	list := NewList(all)
	list.Cut = cut
	return list, nil
}

// readItem reads one record of a list. room is the remaining space in bytes. Fields that are too long for this space are
// omitted.
func readItem(a answer, item JSON, room int) (Version, bool) {
	r, _, ok := findGeneration(a.redactor.redact(item), "")
	if !ok {
		return Version{}, false
	}
	g, ok := newGeneration(a, r, "")
	if !ok {
		return Version{}, false
	}
	g.shorten(max(shortPart, room/partOfRoom))
	return g.Version(), true
}

// size returns the approximate memory use of a record in a list, in bytes.
func (g *Generation) size() int {
	size := recordSize + len(g.Inputs) + len(g.Extra)
	if g.Text != nil {
		size += len(*g.Text)
	}
	return size
}

// shorten removes Inputs, Text and Extra if they are longer than limit bytes. It adds the names of removed fields to Omitted.
func (g *Generation) shorten(limit int) {
	if len(g.Inputs) > limit {
		g.Inputs, g.Omitted = nil, append(g.Omitted, "inputs")
	}
	if g.Text != nil && len(*g.Text) > limit {
		g.Text, g.Omitted = nil, append(g.Omitted, "text")
	}
	if len(g.Extra) > limit {
		g.Extra, g.Omitted = nil, append(g.Omitted, "upstream_fields")
	}
}
