package easel

import (
	"maps"
	"slices"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	// maxKnownEtags is the maximum number of etags in a request. maxEtags is the maximum number of etags that a
	// watch stores.
	maxKnownEtags = 1000
	maxEtags      = 10_000
)

// etags stores the latest etags of the generations in a WatchMany. It keeps the etags of only the maxEtags generations that
// changed most recently.
type etags struct {
	named    bool // whether the watch request contains generation IDs
	etag     map[string]string
	ids      []string        // the keys of etag; the generation that changed most recently is last
	finished map[string]bool // IDs of succeeded and refunded renders, whose etags are not sent; empty if named is true
}

func newEtags(named bool, known map[string]string) *etags {
	if known = maps.Clone(known); known == nil {
		known = make(map[string]string)
	}
	return &etags{named, known, slices.Sorted(maps.Keys(known)), make(map[string]bool)}
}

// latestEtags returns the etags for the next request: those of the generations that changed most recently, at most
// maxKnownEtags. If the watch request contains no generation IDs, latestEtags omits succeeded and refunded renders. The catalog
// may no longer list such a render, and the server would then have to request it separately.
func (e *etags) latestEtags() map[string]string {
	wanted := make(map[string]string)
	for _, id := range slices.Backward(e.ids) {
		if len(wanted) < maxKnownEtags && !e.finished[id] {
			wanted[id] = e.etag[id]
		}
	}
	return wanted
}

// add stores the etag of an update, and reports whether the update is new. If the watch request contains no generation IDs, add
// does not store the etag of a deleted generation, but removes the previous etag.
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
