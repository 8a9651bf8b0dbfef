package catalog

import (
	"slices"
	"strings"
)

var generationWeights = []weight{{names: generationIDNames, score: 2}, {names: statusNames, score: 1}}

// readGeneration reads the answer about a generation. It takes the id of the request, as the
// record need not repeat it.
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

// isEnvelope reports whether an object that has only a status is the wrapper of a
// missing record: its status is that of the request, not of a generation.
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

// readCreated reads the answer to an order. Without an id the order can't be found again,
// whatever else the answer says. An answer with two possible ids is unreadable too: the
// wrong one would be kept for the idempotency key.
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
		return Generation{}, a.malformed("its status is that of an error, and not of a generation: " + a.redactor.clean(status))
	}
	if !stated {
		g.State = StateQueued // the one status that the specification has for this answer
	}
	return g, nil
}

// generationRecord finds the record of a generation in a body. It is not certain where
// another id in the body could be the generation's too.
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

// candidate is an object of a body that has an id, so that it may be the generation.
type candidate struct {
	*Record
	id           string
	depth        int
	wrapper      string // the member that holds the object; "" for the outermost
	isGeneration bool   // the id or the member is named after a generation
}

var (
	generationNames = set(names("generation", "render", "generationId", "renderId"))
	ownIDNames      = names("generationId", "renderId")
	looseMembers    = set(names("job", "result", "item")) // these may be a part of a generation as well as its wrapper
)

// findGeneration finds the record of a generation in a value. An envelope can have an
// id and a status of its own, which are those of the request: the wrapped object comes
// first. The result is not certain where two ids could be the generation's.
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

// candidates lists the objects that have an id, the outermost first.
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

// choose picks the generation among several candidates, if one is clear: the one with the
// requested id, else one that is named a generation, else one inside the outermost with
// the status of a generation.
func choose(found []candidate, requestedID string) (candidate, bool) {
	outer := found[0]
	for i, c := range found {
		if hasID(c.Record, requestedID) {
			found[i].id = requestedID // where it has more than one
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

// pick takes one of the candidates that fit, if they all have the same id.
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

// partOf reports whether a candidate may be a part of another one that is a generation.
func (c candidate) partOf(whole candidate) bool {
	return hasKnownStatus(whole.Record) && looseMembers[c.wrapper]
}

// hasKnownStatus reports whether a record has the status of a generation.
func hasKnownStatus(r *Record) bool {
	status, _, _ := find(r, statusNames, AsText)
	return StateOf(status) != StateUnrecognized
}

// hasID reports whether a record has an id.
func hasID(r *Record, id string) bool {
	_, _, ok := find(r, generationIDNames, equalsID(id))
	return ok
}

// equalsID reads one id and no other.
func equalsID(id string) func(JSON) (string, bool) {
	return func(v JSON) (string, bool) { own, ok := asID(v); return own, ok && own == id }
}

// twoIDs reports whether a record has an id of its own and another one that is named after a
// generation.
func twoIDs(r *Record) bool {
	first, _, _ := find(r, generationIDNames, asID)
	own, _, ok := find(r, ownIDNames, asID)
	return ok && own != first
}

// newGeneration reads a record. Its id is the requested one, or its own where requestedID is "".
func newGeneration(a answer, r *Record, requestedID string) (Generation, bool) {
	g := Generation{ID: takeID(r, requestedID), ObserveTime: a.time}
	if checkID("", "", g.ID) != nil {
		return g, false
	}
	g.Status, g.State = takeStatus(r)
	g.Status = a.redactor.clean(g.Status)
	g.ModelID, _ = take(r, modelOfNames, asID)
	g.Inputs, _ = take(r, inputsNames, asObject) // unchanged: they are the caller's own
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

// takeID takes the requested id out of a record, or the first one.
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

// StateOf is the state that a status stands for.
func StateOf(status string) State {
	if state, known := states[StatusKey(status)]; known {
		return state
	}
	return StateUnrecognized
}

// StatusKey is a status as the table of states has it.
func StatusKey(status string) string {
	return statusStyle.Replace(strings.ToLower(strings.TrimSpace(status)))
}

// takeResult reads the result of a succeeded generation. A full record without a text
// means a file, even without an address; in a list, whose records may be shorter, it means
// no result. An empty text beside a file is no result.
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

// takeFile reads type and size of a file, and whether the record has either.
func takeFile(r *Record) (*File, bool) {
	contentType, typed := take(r, contentTypeNames, AsWord)
	size := optional(take(r, contentSizeNames, asInteger))
	return &File{ContentType: contentType, SizeBytes: size}, typed || size != nil
}

// takeFailure reads the reason of a failure: a text, or an object that has one.
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
