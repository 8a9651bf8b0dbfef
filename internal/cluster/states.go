package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/easel-grpc/easel/internal/watch"
)

const (
	saveEvery = 5 * time.Second
	pagesMost = 64 // of states: 16 MiB
)

// states is what a leader leaves to the one that comes after it: a few pages, each sealed.
type states struct {
	table     table
	seal      *seal
	revisions []uint64 // of the pages
	next      time.Time
}

// page is a part of the states.
type page struct {
	Pages int               `json:"pages"`
	Fence fence             `json:"fence"`
	Words []json.RawMessage `json:"words"`
}

// save writes the states. A page that somebody else has written since is left alone: then
// the lease has passed on, or this one was just taken and the page is taken over the next time.
func (s *states) save(ctx context.Context, part *watch.Peering, under fence) {
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	now := time.Now()
	s.next = now.Add(saveEvery)
	pages := packWords(part.States(), now)
	pages = pages[:min(len(pages), pagesMost)]
	for i, words := range pages {
		if i == len(s.revisions) {
			s.revisions = append(s.revisions, 0)
		}
		text, err := json.Marshal(page{Pages: len(pages), Fence: under, Words: words})
		if err != nil {
			return
		}
		revision, err := s.table.put(ctx, s.key(i), s.seal.close(s.key(i), text), s.revisions[i])
		if errors.Is(err, errTaken) {
			revision, err = s.overtake(ctx, i, under)
		}
		if err != nil {
			return
		}
		s.revisions[i] = revision
	}
}

// overtake gives the revision of a page that was written under an earlier lease.
func (s *states) overtake(ctx context.Context, i int, under fence) (uint64, error) {
	v, err := s.table.get(ctx, s.key(i))
	if errors.Is(err, errNone) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if one, err := s.read(v, i); err == nil && one.Fence.above(under) {
		return 0, errTaken
	}
	return v.revision, nil
}

// load reads what was left. Now is a time on our clock and written the same time on the server's, which
// also dates the pages.
func (s *states) load(ctx context.Context, written, now time.Time) (words []watch.State) {
	s.revisions = nil
	for i, pages := 0, 1; i < min(pages, pagesMost); i++ {
		v, err := s.table.get(ctx, s.key(i))
		if err != nil {
			return words
		}
		s.revisions = append(s.revisions, v.revision)
		one, err := s.read(v, i)
		if err != nil {
			continue
		}
		pages = one.Pages
		saved := now.Add(-max(written.Sub(v.written), 0))
		for _, text := range one.Words {
			if w, err := unpackWord(text, saved); err == nil {
				words = append(words, w)
			}
		}
	}
	return words
}

func (s *states) read(v value, i int) (one page, err error) {
	text, err := s.seal.open(s.key(i), v.data)
	if err == nil {
		err = unpack(text, &one)
	}
	return one, err
}

func (s *states) key(i int) string { return fmt.Sprintf("%s.%d", s.seal.name, i) }
