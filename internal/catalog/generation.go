package catalog

import (
	"slices"
	"strings"
)

var generationWeights = []weight{{names: generationIDNames, score: 2}, {names: statusNames, score: 1}}

// readGeneration reads a generation from a response. It uses the requested ID, because the record may omit its ID.
func readGeneration(a answer, requestedID string) (Generation, error) {
	r, _, err := generationRecord(a, requestedID)
	if err != nil {
		return Generation{}, err
	}
	if r.score(generationWeights) == 0 || isEnvelope(r) {
		return Generation{}, a.malformedError("no record with a status or an identifier")
	}
	g, _ := newGeneration(a, r, requestedID)
	return g, nil
}

// isEnvelope reports whether an object is only a wrapper: it has no ID, but it has a member that usually contains the record. A
// status in a wrapper describes the request, not a generation.
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

// readCreated reads the response to an order. It returns an error if the response has no ID, without which the generation can't
// be found later. It also returns an error if there are two possible IDs, because Easel might then record the wrong one.
func readCreated(a answer) (Generation, error) {
	r, certain, err := generationRecord(a, "")
	if err != nil {
		return Generation{}, err
	}
	if !certain {
		return Generation{}, a.malformedError("more than one possible generation ID")
	}
	status, _, stated := find(r, statusNames, AsWord)
	g, ok := newGeneration(a, r, "")
	switch {
	case !ok || !CanBeNamed(g.ID):
		return Generation{}, a.malformedError("no generation ID that callers can use")
	case errorStatuses[statusKey(status)]:
		return Generation{}, a.malformedError("the status describes an error, not a generation: " + a.redactor.cleanText(status))
	}
	if !stated {
		g.State = StateQueued // the only status that the specification allows in the response to an order
	}
	return g, nil
}

// generationRecord finds the record of a generation in a body. isCertain is false if there is another possible ID in the body.
func generationRecord(a answer, requestedID string) (r *Record, isCertain bool, err error) {
	value, err := a.parseBody()
	if err != nil {
		return nil, false, err
	}
	r, isCertain, ok := findGeneration(value, requestedID)
	if !ok {
		return nil, false, a.malformedError("the body is not an object")
	}
	return r, isCertain, nil
}

// candidate is an object that has an ID and may be the record of the generation.
type candidate struct {
	*Record
	id           string
	depth        int
	wrapper      string // name of the JSON member that contains the object; empty for the outermost object
	isGeneration bool   // whether a name shows that the object is a generation: the name of its wrapper, or of the member that contains its ID
}

var (
	generationNames = set(foldNames("generation", "render", "generationId", "renderId"))
	ownIDNames      = foldNames("generationId", "renderId")
	looseMembers    = set(foldNames("job", "result", "item")) // names of members whose value may be only a part of a generation
)

// findGeneration finds the record of a generation in a value. A wrapped object has priority over its wrapper, which can have
// its own ID and status. isCertain is false if two IDs could belong to the generation. ok is false if the value is not an
// object.
func findGeneration(v JSON, requestedID string) (r *Record, isCertain, ok bool) {
	top, ok := NewRecord(unwrapSingle(v))
	if !ok {
		return nil, false, false
	}
	r = top.findObject(generationWrappers, generationWeights, 2)
	found := appendCandidates(nil, top, "", 0)
	isCertain = len(found) < 2
	if !isCertain {
		var best candidate
		if best, isCertain = choose(found, requestedID); isCertain {
			r = best.Record
		}
	}
	return r, isCertain && !twoIDs(r), true
}

// appendCandidates appends r, followed by the objects nested in r, to list. It skips objects without an ID, and returns the
// extended slice.
func appendCandidates(list []candidate, r *Record, wrapper string, depth int) []candidate {
	if id, by, ok := find(r, generationIDNames, asID); ok {
		list = append(list, candidate{r, id, depth, wrapper, generationNames[wrapper] || generationNames[by.key]})
	}
	for _, name := range generationWrappers {
		if inner, ok := r.object(name); ok && depth < 2 {
			list = appendCandidates(list, inner, name, depth+1)
		}
	}
	return list
}

// choose returns the candidate that is the record of the generation. It applies the first of these criteria that
// any candidate meets:
//
//   - The candidate has the requested ID.
//   - The name of a member or of a wrapper shows that the candidate is a generation.
//   - All candidates have the same ID.
//   - The candidate is nested in another object, and has a known status.
//
// choose returns false if no criterion is met, or if candidates with different IDs meet the applied criterion. It also returns
// false if a nested candidate that meets the last criterion is only a part of the outermost candidate.
func choose(found []candidate, requestedID string) (candidate, bool) {
	outer := found[0]
	for i, c := range found {
		if _, _, ok := find(c.Record, generationIDNames, equalsID(requestedID)); ok {
			found[i].id = requestedID // an object can have several IDs, and c.id may be a different one
		}
	}
	if best, ok := bestCandidate(found, func(c candidate) bool { return c.id == requestedID }); ok {
		return best, true
	}
	if slices.ContainsFunc(found, func(c candidate) bool { return c.isGeneration }) {
		return bestCandidate(found, func(c candidate) bool { return c.isGeneration })
	}
	if best, ok := bestCandidate(found, func(candidate) bool { return true }); ok {
		return best, true
	}
	best, ok := bestCandidate(found, func(c candidate) bool { return c.depth > outer.depth && hasKnownStatus(c.Record) })
	return best, ok && !best.isPartOf(outer)
}

// bestCandidate returns the best of the candidates c for which isEligible(c) is true. This is the last candidate with a known
// status that can't be only a part of the generation: see [candidate.isPartOf]. If there is no such candidate, the first one is
// the best. bestCandidate returns false if no candidate is eligible, or if the eligible candidates have different IDs.
func bestCandidate(found []candidate, isEligible func(candidate) bool) (best candidate, ok bool) {
	for _, c := range found {
		switch {
		case !isEligible(c):
		case !ok:
			best, ok = c, true
		case c.id != best.id:
			return best, false
		case hasKnownStatus(c.Record) && !c.isPartOf(best):
			best = c
		}
	}
	return best, ok
}

// isPartOf reports whether the candidate c may be only a part of the generation in container. This is the case if container has
// a known status, and c is in a member whose name is in looseMembers.
func (c candidate) isPartOf(container candidate) bool {
	return hasKnownStatus(container.Record) && looseMembers[c.wrapper]
}

// hasKnownStatus reports whether the record's status is in the table of states.
func hasKnownStatus(r *Record) bool {
	status, _, _ := find(r, statusNames, AsText)
	return StateOf(status) != StateUnrecognized
}

// equalsID returns a function that reads a value as an ID, and returns true only if the ID equals id.
func equalsID(id string) func(JSON) (string, bool) {
	return func(v JSON) (string, bool) { own, ok := asID(v); return own, ok && own == id }
}

// twoIDs reports whether a record has two different IDs, one of them in a member such as generationId.
func twoIDs(r *Record) bool {
	first, _, _ := find(r, generationIDNames, asID)
	own, _, ok := find(r, ownIDNames, asID)
	return ok && own != first
}

// newGeneration creates a generation from a record. Its ID is requestedID, or the record's own ID if requestedID is empty.
// newGeneration returns false if the ID is missing or invalid.
func newGeneration(a answer, r *Record, requestedID string) (Generation, bool) {
	g := Generation{ID: takeID(r, requestedID), ObserveTime: a.time}
	if checkID("", "", g.ID) != nil {
		return g, false
	}
	g.Status, g.State = takeStatus(r)
	g.Status = a.redactor.cleanText(g.Status)
	g.ModelID, _ = takeMember(r, modelOfNames, asID)
	g.Inputs, _ = takeMember(r, inputsNames, asObject) // secrets are removed from Extra, but not from the inputs, because the caller sent the inputs
	if cost := optionalPointer(takeMember(r, costNames, asInteger)); !inOtherUnits(r) {
		g.CostCents = cost
	}
	g.CreateTime, _ = takeMember(r, createTimeNames, asTime)
	if g.State.Terminal() {
		g.TerminalTime, _ = takeMember(r, terminalTimeNames, asTime)
	}
	switch g.State {
	case StateSucceeded:
		g.Text, g.File = takeResult(r, requestedID != "")
	case StateFailed, StateRefunded:
		g.FailureMessage = a.redactor.cleanText(takeFailure(r))
	}
	g.Extra = extraOf(r)
	return g, true
}

// takeID returns the ID of a record, and marks the member that contains the ID as taken. If requestedID is set, takeID returns
// requestedID. If no member contains requestedID, takeID marks a member with another ID as taken.
func takeID(r *Record, requestedID string) string {
	if requestedID != "" {
		if _, ok := takeMember(r, generationIDNames, equalsID(requestedID)); !ok {
			takeMember(r, generationIDNames, asID)
		}
		return requestedID
	}
	id, _ := takeMember(r, generationIDNames, asID)
	return id
}

var statusStyle = strings.NewReplacer("-", "_", " ", "_")

func takeStatus(r *Record) (string, State) {
	status, ok := takeMember(r, statusNames, AsText)
	if !ok {
		status, ok = takeMember(r, statusNames, func(v JSON) (string, bool) { return string(v), v.isNumber() })
	}
	if !ok {
		return "", StateUnrecognized
	}
	return status, StateOf(status)
}

// StateOf returns the state for a status.
func StateOf(status string) State {
	if state, known := states[statusKey(status)]; known {
		return state
	}
	return StateUnrecognized
}

// statusKey converts a status to the form of the keys in states.
func statusKey(status string) string {
	return statusStyle.Replace(strings.ToLower(strings.TrimSpace(status)))
}

// takeResult reads the result of a generation that succeeded: a text, a file or both.
//
//   - A record with a URL has a file.
//   - A record with a text but no URL has no file.
//   - A record with neither has a file if it contains the file's type or size, or if isComplete is true.
//
// isComplete is false for a record from a list, which may omit fields. An empty text next to a file is not a result.
func takeResult(r *Record, isComplete bool) (*string, *File) {
	_, _, located := find(r, contentURLNames, AsWord)
	answer, written := takeMember(r, textOutputNames, AsText)
	file, described := takeFile(r)
	if !located && (written || !isComplete && !described) {
		file = nil
	}
	if written && (answer != "" || file == nil) {
		return &answer, file
	}
	return nil, file
}

// takeFile reads the type and size of a file. It returns false if the record contains neither.
func takeFile(r *Record) (*File, bool) {
	contentType, typed := takeMember(r, contentTypeNames, AsWord)
	size := optionalPointer(takeMember(r, contentSizeNames, asInteger))
	return &File{ContentType: contentType, SizeBytes: size}, typed || size != nil
}

// takeFailure reads the reason for a failure: a string, or an object that contains a string.
func takeFailure(r *Record) string {
	if message, ok := takeMember(r, failureNames, AsWord); ok {
		return message
	}
	message, _, _ := find(r, failureNames, func(v JSON) (string, bool) {
		inner, _ := NewRecord(v)
		message, _, ok := find(inner, errorTextNames, AsWord)
		return message, ok
	})
	return message
}
