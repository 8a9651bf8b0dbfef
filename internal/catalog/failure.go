package catalog

import (
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// statuses are the kinds that a status means on every route. A status that is not
// here is [KindContract], from 500 on [KindUnavailable].
var statuses = map[int]Kind{
	http.StatusBadRequest:          KindInvalidInput,
	http.StatusUnauthorized:        KindCredentialRejected,
	http.StatusPaymentRequired:     KindInsufficientFunds,
	http.StatusForbidden:           KindForbidden,
	http.StatusRequestTimeout:      KindUnavailable,
	http.StatusUnprocessableEntity: KindInvalidInput,
	http.StatusTooManyRequests:     KindRateLimited,
}

// routeStatuses are the kinds that a status means on one route only.
var routeStatuses = map[string]map[int]Kind{
	opModel:      {http.StatusNotFound: KindNotFound, http.StatusGone: KindNotFound},
	opGeneration: {http.StatusNotFound: KindNotFound, http.StatusGone: KindNotFound},
	opDelete:     {http.StatusNotFound: KindNotFound, http.StatusGone: KindNotFound},
	opQuote:      {http.StatusRequestEntityTooLarge: KindInputsTooLarge},
	opCreate: {
		http.StatusRequestEntityTooLarge: KindInputsTooLarge,
		http.StatusConflict:              KindInProgress,
		http.StatusTooEarly:              KindInProgress,
	},
	opContent: {
		http.StatusNotFound:                     KindNotFound,
		http.StatusGone:                         KindNotFound,
		http.StatusConflict:                     KindContentNotReady,
		http.StatusTooEarly:                     KindContentNotReady,
		http.StatusRequestedRangeNotSatisfiable: KindOutOfRange,
	},
}

// refused is the error of an answer that is not a 2xx. The body is read for what it
// says; where it can't be read, the status alone decides.
func (c *Client) refused(resp *http.Response, r request, redact redactor) *Error {
	var body []byte
	if resp.StatusCode != http.StatusSwitchingProtocols { // its body is the connection, which no time limit ends
		body, _ = readAll(resp, maxFailure)
	}
	said := errorBody{redactor: redact, op: r.op}
	said.read(resp.Header.Get("Content-Type"), body)
	e := &Error{
		Kind:       kindOf(r.op, resp.StatusCode, said.code),
		Op:         r.op,
		Status:     resp.StatusCode,
		Code:       said.code,
		Message:    said.message,
		RetryAfter: ParseRetryAfter(resp.Header.Get("Retry-After"), c.now()),
	}
	if e.Kind == KindInvalidInput {
		e.Violations = said.violations
	}
	switch {
	case e.Kind == KindRedirect:
		e.Message = "check the base URL: the catalog answered with a redirect, which is never followed"
	case e.Kind == KindContract && resp.StatusCode == http.StatusNotFound:
		e.Message = strings.TrimSuffix("check the base URL: it has no "+r.op+": "+e.Message, ": ")
	}
	return e
}

// kindOf is the whole map from an answer that is not a 2xx to a kind.
func kindOf(op string, status int, code string) Kind {
	if status >= 400 && status < 500 {
		if kind, ok := kindOfCode(op, status, fold(code)); ok {
			return kind
		}
	}
	if kind, ok := routeStatuses[op][status]; ok {
		return kind
	}
	if kind, ok := statuses[status]; ok {
		return kind
	}
	switch status / 100 {
	case 3:
		return KindRedirect
	case 5:
		return KindUnavailable
	}
	return KindContract
}

func kindOfCode(op string, status int, code string) (Kind, bool) {
	switch kind := codes[code]; {
	case kind == KindKeyReused && op != opCreate:
	case kind != 0:
		return kind, true
	}
	if op == opContent && contentCodes[code] != 0 {
		return contentCodes[code], true
	}
	if (op == opQuote || op == opCreate) && status == http.StatusNotFound && slices.Contains(modelCodes, code) {
		return KindNotFound, true
	}
	return 0, false
}

// errorBody is what the body of an error says.
type errorBody struct {
	redactor   redactor
	op         string
	code       string
	message    string
	violations []Violation
}

// codeLine is plain text that begins with a code, or is one.
var codeLine = regexp.MustCompile(`^([A-Z][A-Z0-9_]{2,63})(?:: |\s*$)`)

// codeHeading is a page whose heading is a code.
var codeHeading = regexp.MustCompile(`(?i:<h1>)\s*([A-Z][A-Z0-9_]{2,63})\s*(?i:</h1>)`)

// read reads a body of JSON or of plain text. HTML is for people at a browser and is
// not repeated; only a heading that is a code is read. A code counts only where codes stand: the text of a body may echo a prompt
// that holds one.
func (c *errorBody) read(contentType string, body []byte) {
	if value, err := decode(body); err == nil {
		c.readJSON(value)
		return
	}
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "text/plain":
		line := string(body)
		if code := codeLine.FindStringSubmatch(line); code != nil {
			c.code, line = c.redactor.clean(code[1]), line[len(code[0]):]
		}
		c.message = c.redactor.clean(strings.TrimSpace(line))
	case "text/html":
		if code := codeHeading.FindSubmatch(body); code != nil {
			c.code = c.redactor.clean(string(code[1]))
		}
	}
}

func (c *errorBody) readJSON(value any) {
	r, ok := newRecord(value)
	if !ok {
		if line, ok := word(value); ok {
			c.message = c.redactor.clean(strings.TrimSpace(line))
		}
		return
	}
	c.readMember(r, dataWrapper)
	c.readRecord(r)
	for _, name := range errorWrappers {
		c.readMember(r, name)
	}
	c.readViolations(value, "", 0)
	if c.message == "" && len(c.violations) > 0 {
		c.message = c.violations[0].Description
	}
}

func (c *errorBody) readMember(r record, name string) {
	member, _ := r.get(name)
	if inner, ok := newRecord(member); ok {
		c.readRecord(inner)
	}
}

// readRecord reads code and message. What is read later knows better.
func (c *errorBody) readRecord(r record) {
	if code, _, ok := find(r, errorCodeNames, codeWord); ok {
		c.code = c.redactor.clean(code)
	}
	if message, _, ok := find(r, errorTextNames, sentence); ok {
		c.message = c.redactor.clean(message)
	} else if message, _, ok := find(r, errorTextNames, word); ok && c.message == "" && message != c.code {
		c.message = c.redactor.clean(message)
	}
}

// codeWord is a short word for programs. The type of a problem is one when it is no
// address; of an address, the last part is.
func codeWord(value any) (string, bool) {
	s, ok := word(value)
	if address, _, isAddress := strings.Cut(s, "?"); isAddress || strings.Contains(s, "/") {
		s = address[strings.LastIndexByte(address, '/')+1:]
	}
	isCode := func(r rune) bool {
		return r == '_' || r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	ok = ok && s != "" && len(s) <= 64
	return s, ok && !strings.ContainsFunc(s, func(r rune) bool { return !isCode(r) }) && strings.ContainsFunc(s, unicode.IsLetter)
}

// sentence is a text of more than one word.
func sentence(value any) (string, bool) {
	s, ok := word(value)
	return s, ok && strings.ContainsRune(s, ' ')
}
