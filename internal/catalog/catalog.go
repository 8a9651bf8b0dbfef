// Package catalog sends requests to the Generation Catalog. It hides URLs, JSON field names, HTTP statuses and API keys behind
// a few types and a fixed set of error kinds.
//
// The specification does not name many of the JSON fields. The tables in membernames.go list the names that the package recognizes.
// The package never guesses an amount of money.
package catalog

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// CurrencyCode is the ISO 4217 code of the currency of all amounts.
const CurrencyCode = "EUR"

// State is the state of a generation.
type State uint8

// The states of a generation. The zero value is not a state.
const (
	StateQueued       State = iota + 1 // paid for, but not started; a catalog that never reports StateRunning also uses this state for generations in progress
	StateRunning                       // in progress; not in the specification, but some implementations of the catalog use it
	StateSucceeded                     // finished with a result
	StateFailed                        // finished without a result; a refund may follow
	StateRefunded                      // finished without a result; the price was refunded
	StateDeleted                       // deleted from the catalog; set by Easel, never read from a record
	StateUnrecognized                  // the status is unknown to this version of Easel
)

// Terminal reports whether the generation has reached a final state.
func (s State) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateRefunded, StateDeleted:
		return true
	}
	return false
}

// Account is the catalog's record of an account.
//
// In this package, Extra is a JSON object with the members of a record for which the type has no field. It is nil if there are
// no such members. It contains no API keys and no URLs of results. Its nesting depth is at most 24.
type Account struct {
	ID           string // empty if the catalog does not report it
	BalanceCents *int64 // nil if the balance is missing or unreadable
	ObserveTime  time.Time
	Extra        Value `json:",omitempty"`
}

// OutputKind is the kind of result that a model produces.
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

// Model describes a model in the catalog.
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
	Required    *bool // whether orders must set the field; nil if the catalog does not report this
	Default     Value // nil if there is no default
	Allowed     []Value
	Minimum     *float64
	Maximum     *float64
	Extra       Value `json:",omitempty"`
}

// Quote is the price of an order at ObserveTime, the time of the catalog's response.
type Quote struct {
	PriceCents  int64
	ObserveTime time.Time
}

// Generation is one paid job in the catalog. Callers share values of this type and must not modify them. A generation that
// succeeded has a File, a Text or both; if it was read from a list, it may have neither.
type Generation struct {
	ID             string
	ModelID        string // empty if missing from the record
	State          State
	Status         string  // status as the catalog sent it
	Inputs         Value   `json:",omitempty"` // JSON object; nil if missing from the record
	CostCents      *int64  // nil if unreadable
	File           *File   // result file, if the generation succeeded
	Text           *string // result text, if the generation succeeded
	FailureMessage string
	CreateTime     time.Time // zero if missing from the record
	TerminalTime   time.Time // zero if missing from the record
	ObserveTime    time.Time // time of the catalog's response
	Omitted        []string  `json:",omitempty"` // names of large fields that List removed
	Extra          Value     `json:",omitempty"`
}

// Etag returns a digest of all fields except ObserveTime. All replicas therefore compute the same digest for the same record.
func (g Generation) Etag() string {
	g.ObserveTime = time.Time{}
	text, err := json.Marshal(g)
	if err != nil {
		panic("catalog: a generation that was read from JSON can't be written as JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hexOf(sum[:12])
}

// Version is a generation as one catalog response describes it, with its ETag.
type Version struct {
	Generation
	Etag string
}

// Version returns the generation with its ETag.
func (g Generation) Version() Version { return Version{Generation: g, Etag: g.Etag()} }

// File describes the result file of a generation. The client builds the URL of the file from the base URL, and ignores any URL
// in the record.
type File struct {
	ContentType string // empty if missing from the record
	SizeBytes   *int64 // nil if missing from the record
}

// Content is a generation's result file, opened at an offset. Body returns io.EOF only after the last byte.
type Content struct {
	Body        io.ReadCloser
	ContentType string
	Offset      int64  // position of Body's first byte in the file
	Size        *int64 // size of the complete file; nil if the catalog does not report it
	Etag        string // empty if the catalog sends no strong ETag
}

// String returns the name of the state for logs.
func (s State) String() string {
	names := [...]string{"", "queued", "running", "succeeded", "failed", "refunded", "deleted", "unrecognized"}
	if int(s) < len(names) && s != 0 {
		return names[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}
