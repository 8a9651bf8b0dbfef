package catalog

import (
	"slices"
	"strings"
)

var generationWeights = []weight{{names: generationIDNames, score: 2}, {names: statusNames, score: 1}}

// readGeneration reads a generation from a response. It uses the ID of the request, because the record may omit it.
func readGeneration(a answer, requestedID string) (Generation, error) {
	r, _, err := generationRecord(a, requestedID)
	if err != nil {
		return Generation{}, err
	}
	if r.score(generationWeights) == 0 || isEnvelope(r) {
		return Generation{}, a.malformed("no record with a status or an identifier")
	}
	g, _ := newGeneration(a, r, requestedID)
	return g, nil
}

// isEnvelope reports whether an object that has only a status wraps a missing record. Its status is then the status of
// the request.
func isEnvelope(r *Record) bool {
	if _, _, ok := find(r, generationIDNames, asID); ok {
		return false
	}
	for _, name := range generationWrappers {
		if _, ok := r.get(name); ok {
			return true
		}
	}
	return false
}

// readCreated reads the response to an order. Without an ID the order can't be found again. A response with two
// possible IDs is unreadable too, because the wrong one could be stored for the idempotency key.
func readCreated(a answer) (Generation, error) {
	r, certain, err := generationRecord(a, "")
	if err != nil {
		return Generation{}, err
	}
	if !certain {
		return Generation{}, a.malformed("more than one identifier that could be the generation's")
	}
	status, _, stated := find(r, statusNames, AsWord)
	g, ok := newGeneration(a, r, "")
	switch {
	case !ok || !CanBeNamed(g.ID):
		return Generation{}, a.malformed("no identifier that callers can name the generation by")
	case errorStatuses[StatusKey(status)]:
		return Generation{}, a.malformed("its status describes an error and not a generation: " + a.redactor.clean(status))
	}
	if !stated {
		g.State = StateQueued // the only status that the specification allows here
	}
	return g, nil
}

// generationRecord finds the record of a generation in a body. certain is false if another ID in the body could be the
// generation's.
func generationRecord(a answer, requestedID string) (r *Record, certain bool, err error) {
	value, err := a.value()
	if err != nil {
		return nil, false, err
	}
	r, certain, ok := findGeneration(value, requestedID)
	if !ok {
		return nil, false, a.malformed("the body is not an object")
	}
	return r, certain, nil
}

// candidate is an object with an ID that may be the generation.
type candidate struct {
	*Record
	id           string
	depth        int
	wrapper      string // member that contains the object; empty for the outermost object
	isGeneration bool   // whether the name of the ID or of the member indicates a generation
}

var (
	generationNames = set(names("generation", "render", "generationId", "renderId"))
	ownIDNames      = names("generationId", "renderId")
	looseMembers    = set(names("job", "result", "item")) // can be a part of a generation as well as its wrapper
)

// findGeneration finds the record of a generation in a value. The wrapped object has priority, because an envelope can
// have its own ID and status. The result is not certain if two IDs could be the generation's.
func findGeneration(v JSON, requestedID string) (r *Record, certain, ok bool) {
	top, ok := NewRecord(only(v))
	if !ok {
		return nil, false, false
	}
	r = top.inside(generationWrappers, generationWeights, 2)
	found := candidates(nil, top, "", 0)
	certain = len(found) < 2
	if !certain {
		var best candidate
		if best, certain = choose(found, requestedID); certain {
			r = best.Record
		}
	}
	return r, certain && !twoIDs(r), true
}

// candidates appends the objects that have an ID, outermost first.
func candidates(found []candidate, r *Record, wrapper string, depth int) []candidate {
	if id, by, ok := find(r, generationIDNames, asID); ok {
		found = append(found, candidate{r, id, depth, wrapper, generationNames[wrapper] || generationNames[by.key]})
	}
	for _, name := range generationWrappers {
		if inner, ok := r.object(name); ok && depth < 2 {
			found = candidates(found, inner, name, depth+1)
		}
	}
	return found
}

// choose returns the generation if it is unambiguous. It prefers the candidate with the requested ID, then one named as
// a generation, then one inside an outermost object that has the status of a generation.
func choose(found []candidate, requestedID string) (candidate, bool) {
	outer := found[0]
	for i, c := range found {
		if _, _, ok := find(c.Record, generationIDNames, equalsID(requestedID)); ok {
			found[i].id = requestedID // it may have several IDs
		}
	}
	if best, ok := pick(found, func(c candidate) bool { return c.id == requestedID }); ok {
		return best, true
	}
	if slices.ContainsFunc(found, func(c candidate) bool { return c.isGeneration }) {
		return pick(found, func(c candidate) bool { return c.isGeneration })
	}
	if best, ok := pick(found, func(candidate) bool { return true }); ok {
		return best, true
	}
	best, ok := pick(found, func(c candidate) bool { return c.depth > outer.depth && hasKnownStatus(c.Record) })
	return best, ok && !best.partOf(outer)
}

// pick returns a candidate that fits, if all that fit have the same ID.
func pick(found []candidate, fits func(candidate) bool) (best candidate, ok bool) {
	for _, c := range found {
		switch {
		case !fits(c):
		case !ok:
			best, ok = c, true
		case c.id != best.id:
			return best, false
		case hasKnownStatus(c.Record) && !c.partOf(best):
			best = c
		}
	}
	return best, ok
}

// partOf reports whether a candidate may be a part of another candidate that is a generation.
func (c candidate) partOf(whole candidate) bool {
	return hasKnownStatus(whole.Record) && looseMembers[c.wrapper]
}

// hasKnownStatus reports whether a record has the status of a generation.
func hasKnownStatus(r *Record) bool {
	status, _, _ := find(r, statusNames, AsText)
	return StateOf(status) != StateUnrecognized
}

// equalsID returns a reader that accepts only the given ID.
func equalsID(id string) func(JSON) (string, bool) {
	return func(v JSON) (string, bool) { own, ok := asID(v); return own, ok && own == id }
}

// twoIDs reports whether a record has an ID and a different one that is named after a generation.
func twoIDs(r *Record) bool {
	first, _, _ := find(r, generationIDNames, asID)
	own, _, ok := find(r, ownIDNames, asID)
	return ok && own != first
}

// newGeneration reads a record. The ID is requestedID if it is not empty, otherwise the record's own.
func newGeneration(a answer, r *Record, requestedID string) (Generation, bool) {
	g := Generation{ID: takeID(r, requestedID), ObserveTime: a.time}
	if checkID("", "", g.ID) != nil {
		return g, false
	}
	g.Status, g.State = takeStatus(r)
	g.Status = a.redactor.clean(g.Status)
	g.ModelID, _ = take(r, modelOfNames, asID)
	g.Inputs, _ = take(r, inputsNames, asObject) // complete, unlike Extra, because they are the caller's own
	if cost := optional(take(r, costNames, asInteger)); !InOtherUnits(r) {
		g.CostCents = cost
	}
	g.CreateTime, _ = take(r, createTimeNames, asTime)
	if g.State.Terminal() {
		g.TerminalTime, _ = take(r, terminalTimeNames, asTime)
	}
	switch g.State {
	case StateSucceeded:
		g.Text, g.File = takeResult(r, requestedID != "")
	case StateFailed, StateRefunded:
		g.FailureMessage = a.redactor.clean(takeFailure(r))
	}
	g.Extra = extraOf(r)
	return g, true
}

// takeID removes the requested ID from a record, otherwise the first ID, and returns the ID.
func takeID(r *Record, requestedID string) string {
	if requestedID != "" {
		if _, ok := take(r, generationIDNames, equalsID(requestedID)); !ok {
			take(r, generationIDNames, asID)
		}
		return requestedID
	}
	id, _ := take(r, generationIDNames, asID)
	return id
}

var statusStyle = strings.NewReplacer("-", "_", " ", "_")

func takeStatus(r *Record) (string, State) {
	status, ok := take(r, statusNames, AsText)
	if !ok {
		status, ok = take(r, statusNames, func(v JSON) (string, bool) { return string(v), v.isNumber() })
	}
	if !ok {
		return "", StateUnrecognized
	}
	return status, StateOf(status)
}

// StateOf returns the state for a status.
func StateOf(status string) State {
	if state, known := states[StatusKey(status)]; known {
		return state
	}
	return StateUnrecognized
}

// StatusKey returns a status in the spelling of the table of states.
func StatusKey(status string) string {
	return statusStyle.Replace(strings.ToLower(strings.TrimSpace(status)))
}

// takeResult reads the result of a succeeded generation. In a full record, no text means a file, even without a URL. In
// a list, whose records may be shorter, it means no result. An empty text with a file is not a result.
func takeResult(r *Record, full bool) (*string, *File) {
	_, _, located := find(r, contentURLNames, AsWord)
	answer, written := take(r, textOutputNames, AsText)
	file, described := takeFile(r)
	if !located && (written || !full && !described) {
		file = nil
	}
	if written && (answer != "" || file == nil) {
		return &answer, file
	}
	return nil, file
}

// takeFile reads the type and size of a file, and reports whether the record has either.
func takeFile(r *Record) (*File, bool) {
	contentType, typed := take(r, contentTypeNames, AsWord)
	size := optional(take(r, contentSizeNames, asInteger))
	return &File{ContentType: contentType, SizeBytes: size}, typed || size != nil
}

// takeFailure reads the reason for a failure: a string, or an object that contains one.
func takeFailure(r *Record) string {
	if message, ok := take(r, failureNames, AsWord); ok {
		return message
	}
	message, _, _ := find(r, failureNames, func(v JSON) (string, bool) {
		inner, _ := NewRecord(v)
		message, _, ok := find(inner, errorTextNames, AsWord)
		return message, ok
	})
	return message
}
