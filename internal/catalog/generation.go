package catalog

import (
	"encoding/json"
	"strings"
)

var generationWeights = []weight{{names: generationIDNames, score: 2}, {names: statusNames, score: 1}}

// readGenerations reads a list. A record without an identifier is passed over as long
// as others have one: one odd record must not hide the rest.
func readGenerations(a answer) ([]Generation, error) {
	items, err := a.list(generationListNames, generationWeights)
	if err != nil {
		return nil, err
	}
	generations := make([]Generation, 0, len(items))
	for _, item := range items {
		r, ok := unwrap(item, generationWrappers, generationWeights)
		if !ok {
			continue
		}
		if g, ok := a.generation(r, ""); ok {
			generations = append(generations, g)
		}
	}
	if len(generations) == 0 && len(items) > 0 {
		return nil, a.malformed("no record of the list has a readable identifier")
	}
	return generations, nil
}

// readGeneration reads the answer about the generation that was asked for. Its
// identifier is the one that was asked with, as the record need not repeat it.
func readGeneration(a answer, asked string) (Generation, error) {
	r, err := a.record(generationWrappers, generationWeights)
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
// found again, whatever else the answer says.
func readCreated(a answer) (Generation, error) {
	r, err := a.record(generationWrappers, generationWeights)
	if err != nil {
		return Generation{}, err
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

// generation reads a record whose identifier is asked, or its own where asked is "".
func (a answer) generation(r record, asked string) (Generation, bool) {
	g := Generation{ID: takeID(r, asked), ObserveTime: a.time}
	if g.ID == "" {
		return g, false
	}
	g.Status, g.State = takeStatus(r)
	g.Status = a.hide.clean(g.Status)
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
		g.FailureMessage = a.hide.clean(takeFailure(r))
	}
	g.Extra = r.rest(a.hide)
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
	key := statusStyle.Replace(strings.ToLower(strings.TrimSpace(status)))
	if state, known := states[key]; known {
		return status, state
	}
	return status, StateUnrecognized
}

// takeInputs takes the inputs as they were ordered. Only what holds the key of the
// call itself is left out of them: they are the caller's own.
func (a answer) takeInputs(r record) map[string]any {
	inputs, ok := take(r, inputsNames, func(v any) (map[string]any, bool) {
		m, ok := v.(map[string]any)
		return m, ok && shallow(m, 1)
	})
	if !ok {
		return nil
	}
	a.hide.redact(inputs)
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

// redact replaces every text that holds the key of the call, and gives the value back.
func (s scrubber) redact(value any) any {
	switch v := value.(type) {
	case string:
		if s.holdsKey(v) {
			return redacted
		}
	case []any:
		for i, item := range v {
			v[i] = s.redact(item)
		}
	case map[string]any:
		for name, member := range v {
			if s.holdsKey(name) {
				delete(v, name)
				continue
			}
			v[name] = s.redact(member)
		}
	}
	return value
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
