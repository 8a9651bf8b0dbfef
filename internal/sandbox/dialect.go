package sandbox

import (
	"cmp"
	"strings"
)

// Dialect selects one of several possible forms for each point that the specification leaves open. The zero value is the
// default dialect. [Dialects] returns the named dialects.
type Dialect struct {
	// Name identifies the dialect in [Dialects]. It does not affect responses.
	Name string
	// Words maps the default names of JSON members and statuses to the dialect's names. A name that is not in the map stays
	// unchanged.
	Words map[string]string
	// List is the shape of a response with a list of generations or models. Record is the shape of a response with one account,
	// model or generation. Record also applies to a quote if Price is PriceCents.
	List, Record Shape
	// Errors is the shape of error bodies.
	Errors ErrorShape
	// Price is the shape of a quote.
	Price PriceShape
	// Times is the format of times in records.
	Times TimeShape
	// Refund determines how a failed generation is refunded. With each value, the money is refunded exactly once.
	Refund Refund
	// Keyed changes the list of models to an object keyed by model ID, and the list of input fields to an object keyed by field
	// name. It also replaces each allowed value of a field with an object that contains the value and a label.
	Keyed bool
	// NumericIDs makes the ID of each new generation a JSON number of 16 digits.
	NumericIDs bool
	// ExtraMembers adds members to responses. The catalog's specification does not define these members, and their values have
	// many types.
	ExtraMembers bool
	// ShowRunning changes a generation's status from "queued" to "running" when a fifth of its render time has passed. If
	// false, the status is "queued" until the generation has finished.
	ShowRunning bool
	// NoRange makes downloads ignore the Range header, and send the complete file.
	NoRange bool
	// SparseList omits inputs, costs, results and failure reasons from the list of generations.
	SparseList bool
	// ListLimit is the maximum number of generations in a list. Zero means 100.
	ListLimit int
}

// Shape determines how a record or a list is wrapped.
type Shape int

// The shapes of responses. ShapePage differs from ShapeData only for lists. In both, a single record is {"data": {…}}.
const (
	ShapeBare  Shape = iota // {…} or […]
	ShapeNamed              // {"generation": {…}} or {"generations": […]}
	ShapeData               // {"data": …}
	ShapePage               // {"items": […], "total": 2}
)

// ErrorShape is the shape of an error body.
type ErrorShape int

// The values of ErrorShape.
const (
	ErrorFlat    ErrorShape = iota // {"code", "message", "details": {"field"}}
	ErrorNested                    // {"error": {"code", "message", "fields": ["prompt"]}}
	ErrorProblem                   // RFC 9457 problem+json with "errors": [{"field", "message"}]
	ErrorKeyed                     // {"errorCode", "title", "errors": {"body.inputs.prompt": "message"}}
	ErrorText                      // text/plain, "CODE: message"
)

// PriceShape is the shape of a quote.
type PriceShape int

// The values of PriceShape.
const (
	PriceCents  PriceShape = iota // {"priceCents": 12}
	PriceUnit                     // {"price": 12, "unit": "cents", "currencyCode": "EUR"}
	PriceNumber                   // 12
)

// TimeShape is the format of times in JSON.
type TimeShape int

// The values of TimeShape.
const (
	TimeRFC3339 TimeShape = iota
	TimeUnix              // number of seconds
	TimeUnixMilli
	TimeAbsent
)

// Refund determines how a failed generation is refunded.
type Refund int

// The values of Refund.
const (
	// RefundLater sets the status to "failed" and, after Config.RefundDelay, to "refunded". The refund is booked in the
	// transaction that sets "refunded".
	RefundLater Refund = iota
	// RefundAtOnce sets the status directly to "refunded", and books the refund in the same transaction.
	RefundAtOnce
	// RefundSilent sets the status to "failed" and never changes it again. The refund is booked in the transaction that sets
	// "failed".
	RefundSilent
)

// Dialects returns the named dialects, with the default dialect first. Together, they set every field of [Dialect], and
// exercise the rules by which package catalog parses responses.
func Dialects() []Dialect {
	return []Dialect{
		{Name: "default"},
		{
			Name: "named", List: ShapeNamed, Record: ShapeNamed, Errors: ErrorNested, Refund: RefundAtOnce, ShowRunning: true,
			Words: parseWords("balanceCents=balance_cents inputFields=input_fields modelId=model_id costCents=charged_cents createdAt=created_at " +
				"finishedAt=finished_at contentUrl=content_url textOutput=text_output failureReason=failure_reason priceCents=price_cents"),
		},
		{
			Name: "data", List: ShapeData, Record: ShapeData, Errors: ErrorProblem, Times: TimeUnix, ExtraMembers: true, ShowRunning: true,
			Words: parseWords("queued=pending running=processing succeeded=completed failed=error status=state inputFields=parameters label=title"),
		},
		{
			Name: "page", List: ShapePage, Record: ShapePage, Errors: ErrorKeyed, Price: PriceUnit, Times: TimeUnixMilli, NoRange: true,
			Words: parseWords("id=generationId modelId=model inputs=input contentUrl=downloadUrl description=summary"),
		},
		{
			Name: "keyed", Keyed: true, NumericIDs: true, Errors: ErrorText, Price: PriceNumber, Refund: RefundSilent, ShowRunning: true,
			Words: parseWords("queued=QUEUED running=RUNNING succeeded=SUCCEEDED failed=FAILED refunded=REFUNDED required=optional enum=options"),
		},
		{
			Name: "sparse", SparseList: true, ListLimit: 2, Times: TimeAbsent,
			Words: map[string]string{"queued": " Queued ", "succeeded": " Succeeded ", "failed": " Failed ", "refunded": " Refunded "},
		},
	}
}

// parseWords parses pairs of the form name=word, separated by spaces, into a map for [Dialect.Words].
func parseWords(pairs string) map[string]string {
	all := map[string]string{}
	for pair := range strings.FieldsSeq(pairs) {
		name, word, _ := strings.Cut(pair, "=")
		all[name] = word
	}
	return all
}

// Word returns the dialect's name for the JSON member or status with the given default name. If Words does not contain the
// name, Word returns it unchanged.
func (d Dialect) Word(name string) string { return cmp.Or(d.Words[name], name) }
