// Package catalog sends requests to the Generation Catalog. It hides URLs, JSON field names, HTTP statuses and API keys behind
// a few types and a closed set of error kinds.
//
// The specification leaves the shape of many records open. The tables in rules.go list the known field names, one line each. Amounts
// of money are never guessed.
package catalog

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// CurrencyCode is the ISO 4217 code of every amount of the catalog.
const CurrencyCode = "EUR"

// State is the state of a generation.
type State uint8

// The states. The zero value is never a state.
const (
	StateQueued       State = iota + 1 // ordered and paid, not finished
	StateRunning                       // in work; only by alias
	StateSucceeded                     // finished with a result
	StateFailed                        // finished without a result; a refund may follow
	StateRefunded                      // finished without a result, price given back
	StateDeleted                       // gone from the catalog; never read from a record
	StateUnrecognized                  // a status that this build does not know
)

// Terminal reports whether the generation has ended.
func (s State) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateRefunded, StateDeleted:
		return true
	}
	return false
}

// Account is the catalog's record of an API key. In this type and the others, Extra is an object of the members that have no field,
// up to a depth of 24, without API keys and addresses of results. It is nil if there are no such members.
type Account struct {
	ID           string // "" where the catalog does not name it
	BalanceCents *int64 // nil if it could not be read
	ObserveTime  time.Time
	Extra        Value `json:",omitempty"`
}

// OutputKind says where the result of a model's generations is found.
type OutputKind uint8

// The kinds of output.
const (
	OutputUnknown OutputKind = iota
	OutputFile
	OutputText
)

// FieldType is the JSON type of an input value.
type FieldType uint8

// The types of input values.
const (
	FieldUnknown FieldType = iota
	FieldString
	FieldInteger
	FieldNumber
	FieldBoolean
	FieldObject
	FieldArray
)

// Model is one entry of the catalog.
type Model struct {
	ID          string
	Name        string
	Description string
	Output      OutputKind
	Fields      []InputField
	ObserveTime time.Time
	Extra       Value `json:",omitempty"`
}

// InputField describes one input of a model.
type InputField struct {
	Name        string
	DisplayName string
	Description string
	Type        FieldType
	Required    *bool // nil where the catalog does not say
	Default     Value // nil if there is no default
	Allowed     []Value
	Minimum     *float64
	Maximum     *float64
	Extra       Value `json:",omitempty"`
}

// Quote is the price of inputs at one moment.
type Quote struct {
	PriceCents  int64
	ObserveTime time.Time
}

// Generation is one paid job of the catalog. A value that is shared must not be changed. A succeeded generation has a File, a Text
// or both, but in a list it may have neither.
type Generation struct {
	ID             string
	ModelID        string // "" where the record does not say
	State          State
	Status         string  // the status as it was sent
	Inputs         Value   `json:",omitempty"` // an object; nil if the record has none
	CostCents      *int64  // nil where it was not readable
	File           *File   // a succeeded generation's file
	Text           *string // a succeeded generation's text
	FailureMessage string
	CreateTime     time.Time // zero where the record does not say
	TerminalTime   time.Time // zero where the record does not say
	ObserveTime    time.Time // when the catalog answered
	Omitted        []string  `json:",omitempty"` // the fields that a list has left out, at least in part, as they are large
	Extra          Value     `json:",omitempty"`
}

// Etag returns a digest of the record. The digest excludes ObserveTime, so that it is the same on every replica.
func (g Generation) Etag() string {
	g.ObserveTime = time.Time{}
	text, err := json.Marshal(g)
	if err != nil {
		panic("catalog: a generation that was read from JSON can't be written as JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hexOf(sum[:12])
}

// Version is a generation of one answer of the catalog, with its etag.
type Version struct {
	Generation
	Etag string
}

// Version is the generation with its etag.
func (g Generation) Version() Version { return Version{Generation: g, Etag: g.Etag()} }

// File describes a result file. Its path is built from the base URL, not from its address in the record.
type File struct {
	ContentType string // "" where the record does not say
	SizeBytes   *int64 // nil where the record does not say
}

// Content is the result file of a generation from an offset. Body returns io.EOF only after the last byte.
type Content struct {
	Body        io.ReadCloser
	ContentType string
	Offset      int64  // position of the first byte of Body
	Size        *int64 // of the whole file; nil where the catalog does not say
	Etag        string // "" where the catalog gives no strong one
}

// String names the state in logs.
func (s State) String() string {
	names := [...]string{"", "queued", "running", "succeeded", "failed", "refunded", "deleted", "unrecognized"}
	if int(s) < len(names) && s != 0 {
		return names[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}
