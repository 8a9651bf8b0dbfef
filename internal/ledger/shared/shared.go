// Package shared has the words in which a watch and the book speak of the polls that processes share. It is pure.
//
// All numbers that are times are of the book's clock, in microseconds since 1970.
package shared

import "time"

// HoldMicros is how long a claim holds that nobody has answered: whoever made it may be gone.
const HoldMicros = 1_000_000

// PauseMicros is the longest pause that counts.
const PauseMicros = 120_000_000

// Key is what the book says of an API key.
type Key struct {
	// Now is the book's time. All other times are to be compared with it.
	Now int64
	// Born is another after the book has lost or dropped what it knew.
	Born int64
	// Version is that of the newest change.
	Version int64
	// Swept is when the last sweep was claimed, and Seen when one was answered last.
	Swept, Seen int64
	// PausedUntil is when polls may go on, as the catalog has asked.
	PausedUntil int64
	// FullList means that records of the list say as much as reads do.
	FullList bool
	// Replicas is how many processes have claimed polls within the last minute, and Everything whether one of them
	// watches all that the catalog lists.
	Replicas   int
	Everything bool
}

// Ask asks whether a process may poll.
type Ask struct {
	// Replica is the process.
	Replica string
	// Rate is how many requests a second may be made, and Spent how many this process has made since it asked last
	// that it did not claim.
	Rate  float64
	Spent int
	// Everything means that the process watches all that the catalog lists.
	Everything bool
	// Sweep asks for the list, unless it was claimed after LastSweep, the last claim that is known.
	Sweep     bool
	LastSweep int64
	// Reads asks for single reads, the most urgent first.
	Reads []Read
}

// Read is a read of one generation, unless it was claimed after the last claim that is known.
type Read struct {
	ID   string `json:"id"`
	Last int64  `json:"last"`
}

// Claim is what a process may poll. All of it was claimed at Key.Now.
type Claim struct {
	Key   Key
	Sweep bool
	Reads map[string]bool
	// Again is the time from which there is more, where the rate or a pause has refused some; else 0.
	Again int64
}

// Cursor is a place in the changes of an API key: all before it are known.
type Cursor struct {
	Version int64
	ID      string
}

// State is what the book has of a generation.
type State struct {
	ID      string
	Version int64
	// Claimed is when a read of it was claimed last, and Seen when the record was current, as far as reads say.
	Claimed, Seen int64
	// Etag is that of Record, the newest answer. Listed is that of the record that the list has: "" where it carries
	// none, and nil where nobody knows.
	Etag   string
	Listed *string
	Record string
}

// News is what the book has after a cursor.
type News struct {
	Key    Key
	States []State
	Next   Cursor
	// More means that there is more after Next.
	More bool
}

// Change is an answer that differs from what the book has. A nil field does not.
type Change struct {
	ID   string
	At   time.Time // of the answer
	Etag *string
	// Listed is "" where the list does not carry the generation.
	Listed *string
	Record *string
	// Ended means that Record is of one that has ended.
	Ended bool
}

// Same is a read that has found what the book has.
type Same struct {
	ID   string
	At   time.Time // of the answer
	Etag string
}

// Found is what polls have found. Its times are those of the process, with its monotonic clock.
type Found struct {
	// Swept is when the list was read, and Changes are all in which it differs; zero: it was not.
	Swept time.Time
	// FullList is whether records of the list say as much as reads do; nil where nothing is learned.
	FullList *bool
	// Pause is until when nobody may poll, as the catalog has asked; zero: no matter.
	Pause   time.Time
	Changes []Change
	Same    []Same
}

// Written is what has become of what polls have found.
type Written struct {
	// First and Last are the versions of the changes, between which nobody else has written; 0 where there are none.
	First, Last int64
	// Unknown are the generations of Same of which the book has nothing, or an older record that differs.
	Unknown []string
}

// Others is what other processes have told of an API key.
type Others struct {
	// Paused is how long the catalog still wants to be left alone, as any process was asked to.
	Paused time.Duration
	// Reports are the newest of those that are there, by process.
	Reports map[string]string
}
