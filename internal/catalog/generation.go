package catalog

import (
	"encoding/json"
	"slices"
	"strings"
)

var generationWeights = []weight{{names: generationIDNames, score: 2}, {names: statusNames, score: 1}}

// readGenerations reads a list. A record without an identifier is passed over as long
// as others have one: one odd record must not hide the rest.
func readGenerations(a answer) ([]Generation, error) { return readList(a, a.listedGeneration) }

// readList reads a list, each item by read.
func readList[T any](a answer, read func(item any) (T, bool)) ([]T, error) {
	items, err := a.rawList(generationListNames, generationWeights)
	if err != nil {
		return nil, err
	}
	generations := make([]T, 0, len(items))
	for _, item := range items {
		if g, ok := read(item); ok {
			generations = append(generations, g)
		}
	}
	if len(generations) == 0 && len(items) > 0 {
		return nil, a.malformed("no record of the list has a readable identifier")
	}
	return generations, nil
}

// listedGeneration reads an item of a list.
func (a answer) listedGeneration(item any) (g Generation, ok bool) {
	r, _, ok := findGeneration(a.item(item), "")
	if !ok {
		return g, false
	}
	return a.generation(r, "")
}

// readGeneration reads the answer about the generation that was asked for. Its
// identifier is the one that was asked with, as the record need not repeat it.
func readGeneration(a answer, asked string) (Generation, error) {
	r, _, err := a.generationRecord(asked)
	if err != nil {
		return Generation{}, err
	}
	if r.score(generationWeights) == 0 || isEnvelope(r) {
		return Generation{}, a.malformed("no record with a status or an identifier")
	}
	g, _ := a.generation(r, asked)
	return g, nil
}

// isEnvelope reports whether an object that has only a status is the wrapper of a
// record that is missing: its status is that of the request and not of a render.
func isEnvelope(r record) bool {
	if _, _, ok := find(r, generationIDNames, identifier); ok {
		return false
	}
	for _, name := range generationWrappers {
		if _, ok := r.get(name); ok {
			return true
		}
	}
	return false
}

// readCreated reads the answer to an order. Without an identifier the order can't be
// found again, whatever else the answer says. With two that could be it, one would be
// kept for what the order's key stands for, and be the wrong one: that is no answer.
func readCreated(a answer) (Generation, error) {
	r, certain, err := a.generationRecord("")
	if err != nil {
		return Generation{}, err
	}
	if !certain {
		return Generation{}, a.malformed("more than one identifier that could be the render's")
	}
	_, _, stated := find(r, statusNames, word)
	g, ok := a.generation(r, "")
	if !ok {
		return Generation{}, a.malformed("no readable identifier")
	}
	if !stated {
		g.State = StateQueued // the one status that the specification has for this answer
	}
	return g, nil
}

// generationRecord finds the record of a render in a body. It is not certain where
// another identifier in the body could be the render's too.
func (a answer) generationRecord(asked string) (r record, certain bool, err error) {
	value, err := a.decode()
	if err != nil {
		return record{}, false, err
	}
	r, certain, ok := findGeneration(value, asked)
	if !ok {
		return record{}, false, a.malformed("the body is not an object")
	}
	return r, certain, nil
}

// candidate is an object of a body that has an identifier.
type candidate struct {
	record
	id      string
	depth   int
	wrapper string // the member that holds the object; "" for the outermost
	named   bool   // the identifier or the member is called a render's
}

var (
	ownNames      = set(names("generation", "render", "generationId", "renderId"))
	renderIDNames = names("generationId", "renderId")
	looseMembers  = set(names("job", "result", "item")) // these may be parts of a render as well as wrap it
)

// findGeneration finds the record of a render in a value. An envelope can have an
// identifier and a status of its own, which are those of the request: what it wraps
// comes first. It is not certain where two identifiers could be the render's.
func findGeneration(value any, asked string) (r record, certain, ok bool) {
	if list, isList := value.([]any); isList && len(list) == 1 {
		value = list[0]
	}
	top, ok := newRecord(value)
	if !ok {
		return r, false, false
	}
	r = top.inside(generationWrappers, generationWeights)
	found := identified(nil, top, "", 0)
	certain = len(found) < 2
	if !certain {
		var best candidate
		if best, certain = settle(found, asked); certain {
			r = best.record
		}
	}
	return r, certain && !twoIDs(r), true
}

// identified lists the objects that have an identifier, the outermost first.
func identified(found []candidate, r record, wrapper string, depth int) []candidate {
	if id, name, ok := find(r, generationIDNames, identifier); ok {
		found = append(found, candidate{r, id, depth, wrapper, ownNames[wrapper] || ownNames[name]})
	}
	for _, name := range generationWrappers {
		member, _ := r.get(name)
		if inner, ok := newRecord(member); ok && depth < 2 {
			found = identified(found, inner, name, depth+1)
		}
	}
	return found
}

// settle picks the record of the render among several candidates, if it is clear which
// that is: the one that was asked for, else one that is called a render, else one inside
// the outermost that has a render's status.
func settle(found []candidate, asked string) (candidate, bool) {
	outer := found[0]
	for i, c := range found {
		if goesBy(c.record, asked) {
			found[i].id = asked // where it has more than one
		}
	}
	if best, ok := pick(found, func(c candidate) bool { return c.id == asked }); ok {
		return best, true
	}
	if slices.ContainsFunc(found, func(c candidate) bool { return c.named }) {
		return pick(found, func(c candidate) bool { return c.named })
	}
	if best, ok := pick(found, func(candidate) bool { return true }); ok {
		return best, true
	}
	best, ok := pick(found, func(c candidate) bool { return c.depth > outer.depth && rendering(c.record) })
	return best, ok && !best.partOf(outer)
}

// pick takes one of the candidates that fit, if they all have the same identifier.
func pick(found []candidate, fits func(candidate) bool) (best candidate, ok bool) {
	for _, c := range found {
		switch {
		case !fits(c):
		case !ok:
			best, ok = c, true
		case c.id != best.id:
			return best, false
		case rendering(c.record) && !c.partOf(best):
			best = c
		}
	}
	return best, ok
}

// partOf reports whether a candidate may be a part of another one that is a render.
func (c candidate) partOf(whole candidate) bool {
	return rendering(whole.record) && looseMembers[c.wrapper]
}

// rendering reports whether a record has a status that renders have.
func rendering(r record) bool {
	status, _, _ := find(r, statusNames, text)
	return stateOf(status) != StateUnrecognized
}

// goesBy reports whether an identifier is one of a record's.
func goesBy(r record, id string) bool {
	_, _, ok := find(r, generationIDNames, func(v any) (string, bool) { own, ok := identifier(v); return own, ok && own == id })
	return ok
}

// twoIDs reports whether a record has an identifier of its own and another one that is
// called a render's.
func twoIDs(r record) bool {
	first, _, _ := find(r, generationIDNames, identifier)
	own, _, ok := find(r, renderIDNames, identifier)
	return ok && own != first
}

// generation reads a record whose identifier is asked, or its own where asked is "".
func (a answer) generation(r record, asked string) (Generation, bool) {
	g := Generation{ID: takeID(r, asked), ObserveTime: a.time}
	if g.ID == "" {
		return g, false
	}
	g.Status, g.State = takeStatus(r)
	g.Status = a.redactor.clean(g.Status)
	g.ModelID, _ = take(r, modelOfNames, identifier)
	g.Inputs = a.takeInputs(r)
	if cost, ok := take(r, costNames, whole); ok && !foreign(r) {
		g.CostCents = &cost
	}
	g.CreateTime, _ = take(r, createTimeNames, moment)
	if g.State.Terminal() {
		g.TerminalTime, _ = take(r, terminalTimeNames, moment)
	}
	switch g.State {
	case StateSucceeded:
		g.Text, g.File = takeResult(r, asked != "")
	case StateFailed, StateRefunded:
		g.FailureMessage = a.redactor.clean(takeFailure(r))
	}
	g.Extra = r.rest()
	return g, true
}

// takeID takes out the identifier that was asked with, or the first one.
func takeID(r record, asked string) string {
	if asked != "" {
		isAsked := func(v any) (string, bool) { id, ok := identifier(v); return id, ok && id == asked }
		if _, ok := take(r, generationIDNames, isAsked); !ok {
			take(r, generationIDNames, identifier)
		}
		return asked
	}
	id, _ := take(r, generationIDNames, identifier)
	return id
}

var statusStyle = strings.NewReplacer("-", "_", " ", "_")

func takeStatus(r record) (string, State) {
	status, ok := take(r, statusNames, text)
	if !ok {
		status, ok = take(r, statusNames, func(v any) (string, bool) { n, ok := v.(json.Number); return n.String(), ok })
	}
	if !ok {
		return "", StateUnrecognized
	}
	return status, stateOf(status)
}

func stateOf(status string) State {
	if state, known := states[statusStyle.Replace(strings.ToLower(strings.TrimSpace(status)))]; known {
		return state
	}
	return StateUnrecognized
}

// takeInputs takes the inputs as they were ordered: they are the caller's own.
func (a answer) takeInputs(r record) map[string]any {
	inputs, ok := take(r, inputsNames, func(v any) (map[string]any, bool) {
		m, ok := v.(map[string]any)
		return m, ok && shallow(m, 1)
	})
	if !ok {
		return nil
	}
	return inputs
}

func shallow(value any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if !shallow(item, depth+1) {
				return false
			}
		}
	case map[string]any:
		for _, member := range v {
			if !shallow(member, depth+1) {
				return false
			}
		}
	}
	return true
}

// takeResult reads the result of a succeeded render. A whole record without a text
// stands for a file, even where it does not give the address; in a list, which may say
// less, it stands for nothing. An empty text beside a file is no result.
func takeResult(r record, full bool) (*string, *File) {
	_, _, located := find(r, contentURLNames, word)
	answer, written := take(r, textOutputNames, text)
	file, described := takeFile(r)
	if !located && (written || !full && !described) {
		file = nil
	}
	if written && (answer != "" || file == nil) {
		return &answer, file
	}
	return nil, file
}

// takeFile reads what a record says about a file, and whether it says anything.
func takeFile(r record) (*File, bool) {
	contentType, typed := take(r, contentTypeNames, word)
	size, sized := take(r, contentSizeNames, whole)
	file := &File{ContentType: contentType}
	if sized {
		file.SizeBytes = &size
	}
	return file, typed || sized
}

// takeFailure reads why a render failed: a text, or an object that has one.
func takeFailure(r record) string {
	if message, ok := take(r, failureNames, word); ok {
		return message
	}
	message, _, _ := find(r, failureNames, func(v any) (string, bool) {
		inner, ok := newRecord(v)
		if !ok {
			return "", false
		}
		message, _, ok := find(inner, errorTextNames, word)
		return message, ok
	})
	return message
}
