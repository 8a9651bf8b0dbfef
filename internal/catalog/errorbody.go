package catalog

import (
	"mime"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// errorBody contains the parsed body of an error response.
type errorBody struct {
	redactor   *redactor
	op         string
	code       string
	message    string
	own        bool // whether the body is a JSON object that contains a code or a message, as the catalog's own errors do
	violations []Violation
}

// containsWord reports whether the code or the message contains word, which must be in lower case. It ignores the case of the
// code and the message.
func (e errorBody) containsWord(word string) bool {
	return strings.Contains(strings.ToLower(e.code), word) || strings.Contains(strings.ToLower(e.message), word)
}

// codeLine matches plain text that is an error code, or that starts with a code, a colon and a space.
var codeLine = regexp.MustCompile(`^([A-Z][A-Z0-9_]{2,63})(?:: |\s*$)`)

// readErrorBody reads an error body in JSON or plain text. Codes are recognized only in certain positions, because the rest of
// the body may quote a prompt.
func readErrorBody(op, contentType string, body []byte, redact *redactor) errorBody {
	e := errorBody{op: op, redactor: redact}
	value, err := parse(body)
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case err == nil:
		e.readJSON(value)
	case media == "text/plain":
		line := string(body)
		if code := codeLine.FindStringSubmatch(line); code != nil {
			e.code, line = redact.cleanText(code[1]), line[len(code[0]):]
		}
		e.message = redact.cleanText(strings.TrimSpace(line))
	}
	return e
}

func (e *errorBody) readJSON(v JSON) {
	r, ok := NewRecord(v)
	if !ok {
		if line, ok := AsWord(v); ok {
			e.message = e.redactor.cleanText(strings.TrimSpace(line))
		}
		return
	}
	if data, ok := r.object(dataWrapper); ok {
		e.readMessage(data) // this object may echo the order, so no code is read from it
	}
	e.readRecord(r)
	for _, name := range errorWrappers {
		if inner, ok := r.object(name); ok {
			e.readRecord(inner)
		}
	}
	e.readViolations(v, "", 0)
	if e.message == "" && len(e.violations) > 0 {
		e.message = e.violations[0].Description
	}
	e.own = e.code != "" || e.message != ""
}

// readRecord reads the code and the message of an error from an object. Later calls override the results of earlier calls.
func (e *errorBody) readRecord(r *Record) {
	if code, _, ok := find(r, errorCodeNames, codeWord); ok {
		e.code = e.redactor.cleanText(code)
	} else if code, _, ok := find(r, errorTypeNames, problemType); ok {
		e.code = e.redactor.cleanText(code)
	}
	e.readMessage(r)
}

func (e *errorBody) readMessage(r *Record) {
	if message, _, ok := find(r, errorTextNames, readSentence); ok {
		e.message = e.redactor.cleanText(message)
	} else if message, _, ok := find(r, errorTextNames, AsWord); ok && e.message == "" && message != e.code {
		e.message = e.redactor.cleanText(message)
	}
}

// problemType returns the error code in v, the "type" member of a problem (RFC 9457). The member is a code, or a URL that ends
// with a code. problemType returns false if there is no code.
func problemType(v JSON) (string, bool) {
	s, ok := AsWord(v)
	if !ok || strings.ContainsFunc(s, unicode.IsSpace) {
		return "", false
	}
	address, _, _ := strings.Cut(s, "?")
	return code(address[strings.LastIndexByte(address, '/')+1:])
}

// codeWord returns v as text, and reports whether the text is a short machine-readable code.
func codeWord(v JSON) (string, bool) {
	s, _ := AsWord(v)
	return code(s)
}

func code(s string) (string, bool) {
	isCode := func(r rune) bool {
		return r == '_' || r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	return s, s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return !isCode(r) }) && strings.ContainsFunc(s, unicode.IsLetter)
}

// readSentence returns v as text, and reports whether the text has more than one word.
func readSentence(v JSON) (string, bool) {
	s, ok := AsWord(v)
	return s, ok && strings.ContainsRune(s, ' ')
}

const (
	maxViolations     = 16
	maxViolationText  = 200 // maximum length of a field name or a description, in bytes
	maxViolationDepth = 4
)

// readViolations collects the invalid fields in v, which is an error or a part of one. listName is the folded name (see [Fold])
// of the member that contains v, or "" if v is the error itself.
func (e *errorBody) readViolations(v JSON, listName string, depth int) {
	if depth > maxViolationDepth {
		return
	}
	if text, ok := AsText(v); ok && slices.Contains(listsOfFields, listName) {
		e.addViolation(text, "")
	}
	items, _ := v.Items()
	for _, item := range items {
		e.readViolations(item, listName, depth+1)
	}
	if r, ok := NewRecord(v); ok {
		e.readViolationRecord(r, listName, depth)
	}
}

// readViolationRecord reads an object that describes one invalid field, contains lists of invalid fields, or has field names as
// its member names.
func (e *errorBody) readViolationRecord(r *Record, listName string, depth int) {
	fieldNames := violationFields
	if listName == "" { // at the top level, "name" and "path" refer to the error or the request
		fieldNames = ownFieldNames
	}
	if field, ok := takeMember(r, fieldNames, fieldPath); ok {
		description, _, _ := find(r, violationTexts, AsWord)
		e.addViolation(field, description)
		return
	}
	found := len(e.violations)
	for _, name := range slices.Concat(violationLists, anyErrorWrapper) {
		if member, ok := r.get(name); ok {
			if listName == "" && slices.Contains(anyErrorWrapper, name) {
				name = ""
			}
			e.readViolations(member, name, depth+1)
		}
	}
	if len(e.violations) == found && slices.Contains(keyedByField, listName) {
		e.readKeyed(r)
	}
}

// readKeyed reads violations from an object whose member names are field names: {"prompt":"too long"} or {"prompt":["too
// long"]}.
func (e *errorBody) readKeyed(r *Record) {
	for _, m := range r.sent.Members() {
		if slices.Contains(notFieldNames, Fold(m.Name)) {
			continue
		}
		if description, ok := fieldText(m.Value); ok {
			e.addViolation(m.Name, description)
		}
	}
}

func fieldText(v JSON) (string, bool) {
	if items, ok := v.Items(); ok && len(items) > 0 {
		return fieldText(items[0])
	}
	if r, ok := NewRecord(v); ok {
		description, _, ok := find(r, violationTexts, AsWord)
		return description, ok
	}
	return AsWord(v)
}

// fieldPath returns the name of a field from a string, or from a list of path elements, which it joins with dots.
func fieldPath(v JSON) (string, bool) {
	steps, ok := v.Items()
	if !ok {
		return AsWord(v)
	}
	parts := make([]string, 0, len(steps))
	for _, step := range steps {
		if step.isNumber() {
			parts = append(parts, string(step))
		} else if text, ok := AsText(step); ok {
			parts = append(parts, text)
		}
	}
	path := strings.TrimSpace(strings.Join(parts, "."))
	return path, path != ""
}

// addViolation adds a violation, unless the field already has one or there are already maxViolations.
func (e *errorBody) addViolation(field, description string) {
	v := Violation{
		Field:       clamp(e.redactor.cleanText(contractField(e.op, field)), maxViolationText),
		Description: clamp(e.redactor.cleanText(description), maxViolationText),
	}
	same := func(other Violation) bool { return other.Field == v.Field }
	if len(e.violations) < maxViolations && !slices.ContainsFunc(e.violations, same) {
		e.violations = append(e.violations, v)
	}
}

// bracketed matches a path element such as [prompt] or ["prompt"], but not [0].
var bracketed = regexp.MustCompile(`\[["']?([^\]"'0-9][^\]"']*)["']?\]`)

// contractField converts the catalog's name of a field to the contract's name.
func contractField(op, field string) string {
	field = bracketed.ReplaceAllString(strings.TrimSpace(field), ".$1")
	steps := strings.Split(strings.ReplaceAll(field, "/", "."), ".")
	for len(steps) > 1 && slices.Contains(pathPrefixes, Fold(steps[0])) {
		steps = steps[1:]
	}
	first := Fold(steps[0])
	takesInputs := op == opQuote || op == OpCreate
	switch {
	case len(steps) > 1 && slices.Contains(inputsFieldNames, first):
		return "inputs." + strings.Join(steps[1:], ".")
	case len(steps) == 1 && slices.Contains(modelFieldNames, first), op == opModel && first == "id":
		return "model_id"
	case len(steps) == 1 && slices.Contains(orderKeyNames, first):
		return "idempotency_key"
	case len(steps) == 1 && slices.Contains(inputsFieldNames, first):
		return "inputs"
	case takesInputs:
		return "inputs." + strings.Join(steps, ".")
	case first == "id":
		return "generation_id"
	}
	return strings.Join(steps, ".")
}
