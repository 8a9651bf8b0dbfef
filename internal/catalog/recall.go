package catalog

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// Most records of a list are, byte for byte, what they were in the list before. What was read of
// them then is what would be read now, so they are not read again: 0.3 instead of 7 µs a record
// (BenchmarkReadAListAgain).
//
// To take it out, let Client.List read what Client.Generations gives.

// Listed is a generation as a list has it, with its etag.
type Listed struct {
	Generation
	Etag string
}

// Listed is the generation with its etag.
func (g Generation) Listed() Listed { return Listed{Generation: g, Etag: g.Etag()} }

// Recall remembers the records of one list until the next. It is for one credential, and for one
// list at a time. The zero value has seen none.
type Recall struct {
	records []*recalled // in the order of the list
	next    int         // the place of the one that is looked for first
	hide    scrubber    // what was taken out of them
}

// recalled is an object of a list and what was read of it. It stands for the object among the
// items of the list.
type recalled struct {
	text    string // a part of the body that had it last
	members any    // nil once they were read
	Listed
}

const (
	// maxRecalled is the largest body that is remembered, in bytes. What was read of it takes
	// a few times as much.
	maxRecalled = 1 << 20
	// maxTries is how many records are looked at for one. Lists keep their order, and the usual
	// ones have fewer.
	maxTries = 256
)

// List reads what [Client.Generations] does, for whoever reads the same list again and again.
// last remembers the list that was read before, and then this one. Nil remembers none.
func (c *Client) List(ctx context.Context, cred Credential) ([]Listed, error) {
	var last *Recall
	if last == nil {
		last = new(Recall)
	}
	return fetch(ctx, c, cred, request{op: opGenerations}, func(a answer) ([]Listed, error) { return readListed(a, last) })
}

// readListed reads a list with the help of the last one.
func readListed(a answer, last *Recall) ([]Listed, error) {
	a.recall = last.of(a)
	records := make([]*recalled, 0, len(last.records))
	all, err := readList(a, func(item any) (Listed, bool) {
		r, ok := item.(*recalled)
		if !ok {
			return a.listed(item)
		}
		if r.members != nil {
			if r.Listed, ok = a.listed(r.members); !ok {
				return r.Listed, false
			}
			r.members = nil
		}
		records = append(records, r)
		r.ObserveTime = a.time
		return r.Listed, true
	})
	switch {
	case err == nil:
		*last = Recall{records: records, hide: a.hide}
	case last.next > 0: // some are now parts of this body, and would keep all of it
		*last = Recall{}
	}
	return all, err
}

// listed reads an item of a list that is not known.
func (a answer) listed(item any) (one Listed, ok bool) {
	g, ok := a.listedGeneration(item)
	if ok {
		one = g.Listed()
	}
	return one, ok
}

// of gives what helps with an answer; nil: nothing may. What is hidden changes with a held key.
func (l *Recall) of(a answer) *Recall {
	if len(a.body) > maxRecalled {
		return nil
	}
	if !slices.EqualFunc(l.hide.forms, a.hide.forms, bytes.Equal) {
		*l = Recall{}
	}
	l.next = 0
	return l
}

// find gives the record that text begins with, if the last list had it. An object ends where it
// ends, whatever follows: text that begins with the text of one begins with that object.
func (l *Recall) find(text string) *recalled {
	for i := range min(len(l.records), maxTries) {
		at := (l.next + i) % len(l.records)
		if r := l.records[at]; strings.HasPrefix(text, r.text) {
			l.next = at + 1
			r.text = text[:len(r.text)] // not to keep the last body
			return r
		}
	}
	return nil
}

// recalls reports whether the items of an array may stand for objects: those of the outermost one,
// and of those that the outermost object has. No rule but that of lists looks into them.
func (p *parser) recalls(depth int) bool {
	return p.recall != nil && (depth == 1 || depth == 2 && p.inObject)
}

// item reads an item of an array.
func (p *parser) item(depth int) (any, bool) {
	p.blanks()
	if !p.recalls(depth) || p.at == len(p.text) || p.text[p.at] != '{' {
		return p.value(depth)
	}
	begin := p.at
	if known := p.recall.find(p.text[begin:]); known != nil {
		p.at += len(known.text)
		return known, true
	}
	members, ok := p.value(depth)
	if !ok {
		return nil, false // where it has stopped means nothing
	}
	return &recalled{text: p.text[begin:p.at], members: members}, true
}
