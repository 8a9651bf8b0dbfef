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
	maxPages  = 64 // of states: 16 MiB
)

// handover keeps the states that a leader leaves to the next one: a few pages, each sealed.
type handover struct {
	table     table
	seal      *seal
	revisions []uint64 // of the pages
	next      time.Time
}

// page is a part of the states. Its JSON names are those of the release before, as replicas of both run
// beside each other in an upgrade.
type page struct {
	Pages  int               `json:"pages"`
	Fence  fence             `json:"fence"`
	States []json.RawMessage `json:"words"`
}

// save writes the states. It leaves a page of a later lease alone, and takes over one of an earlier lease
// the next time.
func (h *handover) save(ctx context.Context, peering *watch.Peering, under fence) {
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	now := time.Now()
	h.next = now.Add(saveEvery)
	pages := packStates(peering.States(), now)
	pages = pages[:min(len(pages), maxPages)]
	for i, states := range pages {
		if i == len(h.revisions) {
			h.revisions = append(h.revisions, 0)
		}
		text, err := json.Marshal(page{Pages: len(pages), Fence: under, States: states})
		if err != nil {
			return
		}
		revision, err := h.table.put(ctx, h.key(i), h.seal.close(h.key(i), text), h.revisions[i])
		if errors.Is(err, errConflict) {
			revision, err = h.overtake(ctx, i, under)
		}
		if err != nil {
			return
		}
		h.revisions[i] = revision
	}
}

// overtake gives the revision of a page that was written under an earlier lease.
func (h *handover) overtake(ctx context.Context, i int, under fence) (uint64, error) {
	v, err := h.table.get(ctx, h.key(i))
	if errors.Is(err, errNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if saved, err := h.read(v, i); err == nil && saved.Fence.above(under) {
		return 0, errConflict
	}
	return v.revision, nil
}

// load reads the states of the leader before. now is a time on our clock, and written is the same time on
// the server's, which also dates the pages.
func (h *handover) load(ctx context.Context, written, now time.Time) (states []watch.State) {
	h.revisions = nil
	for i, pages := 0, 1; i < min(pages, maxPages); i++ {
		v, err := h.table.get(ctx, h.key(i))
		if err != nil {
			return states
		}
		h.revisions = append(h.revisions, v.revision)
		saved, err := h.read(v, i)
		if err != nil {
			continue
		}
		pages = saved.Pages
		at := now.Add(-max(written.Sub(v.written), 0))
		for _, text := range saved.States {
			if s, err := unpackState(text, at); err == nil {
				states = append(states, s)
			}
		}
	}
	return states
}

func (h *handover) read(v value, i int) (saved page, err error) {
	text, err := h.seal.open(h.key(i), v.data)
	if err == nil {
		err = unpack(text, &saved)
	}
	return saved, err
}

func (h *handover) key(i int) string { return fmt.Sprintf("%s.%d", h.seal.name, i) }
