package easel

import (
	"maps"
	"slices"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	// maxKnownEtags is the most that a request may name, and maxEtags the most that a watch remembers.
	maxKnownEtags = 1000
	maxEtags      = 10_000
)

// etags are those of the newest updates that a watch of many generations has had.
type etags struct {
	named    bool // the request names its generations
	etag     map[string]string
	ids      []string        // of etag, the one that changed longest ago first
	finished map[string]bool // of ids, where they are not named: what has not changed any more needs no read
}

func newEtags(named bool, known map[string]string) *etags {
	if known = maps.Clone(known); known == nil {
		known = make(map[string]string)
	}
	return &etags{named, known, slices.Sorted(maps.Keys(known)), make(map[string]bool)}
}

// wanted are the etags for the next request. The catalog is asked about each that it does not list any more, so
// those are left out of which nothing more is expected.
func (e *etags) wanted() map[string]string {
	wanted := make(map[string]string)
	for _, id := range slices.Backward(e.ids) {
		if len(wanted) < maxKnownEtags && !e.finished[id] {
			wanted[id] = e.etag[id]
		}
	}
	return wanted
}

// add remembers an update, and reports whether it is new. A deleted generation that nobody named is forgotten.
func (e *etags) add(generation *easelv1.Generation) bool {
	id, state := generation.GetGenerationId(), generation.GetState()
	if before, known := e.etag[id]; known && before == generation.GetEtag() {
		return false
	}
	e.forget(id)
	if state == easelv1.State_STATE_DELETED && !e.named {
		return true
	}
	if len(e.ids) >= maxEtags {
		e.forget(e.ids[0])
	}
	e.etag[id], e.ids = generation.GetEtag(), append(e.ids, id)
	if !e.named && (state == easelv1.State_STATE_SUCCEEDED || state == easelv1.State_STATE_REFUNDED) {
		e.finished[id] = true
	}
	return true
}

func (e *etags) forget(id string) {
	if _, known := e.etag[id]; !known {
		return
	}
	delete(e.etag, id)
	delete(e.finished, id)
	e.ids = slices.DeleteFunc(e.ids, func(one string) bool { return one == id })
}
