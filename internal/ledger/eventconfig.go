package ledger

import "time"

// EventConfig describes the owners that receive events, and builds the data of events. Every event is written, but an event
// whose owner has no receiver is not delivered. The functions are called within transactions, so they must not use the ledger
// or block.
type EventConfig struct {
	// Teams returns the teams in this process's configuration, keyed by name. The entry [AllOwners] has the settings for events
	// about the total budget.
	Teams func() map[string]Team
	// Generation returns the data of an event about an order's generation, as JSON. text is the text of the result, or nil.
	Generation func(o Order, text *string) string
	// Budget returns the data of an event about a budget, as JSON.
	Budget func(Budget) string
}

// Team contains the settings of one owner in this process's configuration.
type Team struct {
	Limits     Limits
	Thresholds []int64       // percentages of the limits at which the owner is notified, ascending; if nil, [DefaultThresholds] apply
	Subscribed bool          // whether the owner has an event receiver
	Retention  time.Duration // time after which the content of orders is erased; zero means never
	// KeepDeleted means that the copy of a result remains when the owner deletes the generation.
	KeepDeleted bool
}
