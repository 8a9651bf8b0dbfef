package sandbox

import "cmp"

// Dialect is one way to fill in what the specification leaves open. The zero value is the default
// dialect; [Dialects] names the others.
type Dialect struct {
	// Name tells the dialects of [Dialects] apart. It has no effect.
	Name string
	// List is the shape of GET /generations and GET /models.
	List Shape
	// Record is the shape of one account, model or generation.
	Record Shape
	// Errors is the shape of error bodies.
	Errors ErrorShape
	// Status is the spelling of a generation's status.
	Status StatusWords
	// Price is the shape of the answer to a quote.
	Price PriceShape
	// Times is the spelling of times in records.
	Times TimeShape
	// Refund is the way from a failed generation to its refund. The money moves exactly once in each.
	Refund Refund
	// KeyedModels makes the list of models an object keyed by model id.
	KeyedModels bool
	// KeyedFields makes the input fields an object keyed by field name.
	KeyedFields bool
	// NumericIDs makes generation ids JSON numbers of 16 digits.
	NumericIDs bool
	// ExtraMembers adds members of many types that no client knows.
	ExtraMembers bool
	// SnakeCase spells members created_at instead of createdAt, those of the specification included.
	SnakeCase bool
	// ShowRunning shows "running" once a fifth of the duration has passed.
	ShowRunning bool
	// ShortFields names an invalid input "prompt" instead of "inputs.prompt" in error details.
	ShortFields bool
	// NoRange answers every download with the whole file.
	NoRange bool
	// SparseList leaves inputs, cost and results out of list items.
	SparseList bool
	// ListLimit is the number of generations that a list shows. 0 means 100, less than 0 an empty list.
	ListLimit int
}

// Shape is the wrapping of a record or a list.
type Shape int

// The shapes. For a record, ShapePage is the same as ShapeData.
const (
	ShapeBare  Shape = iota // {…} or […]
	ShapeNamed              // {"generation": {…}} or {"generations": […]}
	ShapeData               // {"data": …}
	ShapePage               // {"items": […], "total": 2}
)

// ErrorShape is the look of an error body.
type ErrorShape int

// The error shapes.
const (
	ErrorFlat    ErrorShape = iota // {"code", "message", "details": {"field"}}
	ErrorNested                    // the same under "error"
	ErrorProblem                   // RFC 9457 problem+json
	ErrorText                      // text/plain, "CODE: message"
	ErrorHTML                      // a page
)

// StatusWords is the spelling of states.
type StatusWords int

// The spellings.
const (
	StatusAsSpecified StatusWords = iota
	StatusForeign                 // pending, processing, completed, error, refunded
	StatusUpper                   // QUEUED
	StatusPadded                  // " Queued "
)

// PriceShape is the look of a quote.
type PriceShape int

// The price shapes.
const (
	PriceCents     PriceShape = iota // {"priceCents": 12}
	PriceCost                        // {"costCents": 12}
	PricePlain                       // {"price": 12}
	PriceOnlyCents                   // {"cents": 12}
	PriceNumber                      // 12
)

// TimeShape is the spelling of times.
type TimeShape int

// The spellings of times.
const (
	TimeRFC3339 TimeShape = iota
	TimeUnix              // seconds, a number
	TimeUnixMilli
	TimeAbsent
)

// Refund is the way from a failed generation to its refund.
type Refund int

// The ways to a refund.
const (
	// RefundLater shows "failed" for Config.RefundDelay, then "refunded". The refund is booked in the
	// transaction that makes it "refunded".
	RefundLater Refund = iota
	// RefundAtOnce goes straight to "refunded", which books the refund.
	RefundAtOnce
	// RefundSilent stays "failed" for good. The refund is booked in the transaction that makes it "failed".
	RefundSilent
)

// Dialects returns every named dialect, the default one first. A client that reads all of them
// correctly has met each switch at least once.
func Dialects() []Dialect {
	return []Dialect{
		{Name: "default"},
		{Name: "named", List: ShapeNamed, Record: ShapeNamed, Errors: ErrorNested, Price: PriceCost, ShortFields: true},
		{Name: "data", List: ShapeData, Record: ShapeData, Errors: ErrorProblem, Price: PricePlain, ExtraMembers: true},
		{Name: "page", List: ShapePage, Errors: ErrorNested, Price: PriceOnlyCents, Times: TimeUnix},
		{Name: "numbers", NumericIDs: true, Price: PriceNumber, Times: TimeUnixMilli},
		{Name: "foreign", Status: StatusForeign, ShowRunning: true, Errors: ErrorText},
		{Name: "upper", Status: StatusUpper, ShowRunning: true, Errors: ErrorHTML, Refund: RefundAtOnce},
		{Name: "padded", Status: StatusPadded, Times: TimeAbsent, Refund: RefundSilent},
		{Name: "snake", SnakeCase: true, List: ShapeNamed, ExtraMembers: true},
		{Name: "keyed", KeyedModels: true, KeyedFields: true, Record: ShapeNamed},
		{Name: "refund-at-once", Refund: RefundAtOnce},
		{Name: "refund-silent", Refund: RefundSilent},
		{Name: "no-range", NoRange: true, ShowRunning: true},
		{Name: "sparse-list", SparseList: true, List: ShapeData},
		{Name: "short-list", ListLimit: 2},
		{Name: "empty-list", ListLimit: -1, List: ShapePage},
	}
}

func (d Dialect) listLimit() int { return max(cmp.Or(d.ListLimit, 100), 0) }
