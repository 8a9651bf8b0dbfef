package promises

import (
	"fmt"
	"time"
)

// Broken describes a violation of a promise in a run.
type Broken struct {
	Promise    string
	At         time.Duration
	Actor      string
	Generation string
	Text       string
}

func (b Broken) String() string {
	return fmt.Sprintf("%s: at %s, %s %s: %s", b.Promise, b.At.Round(time.Microsecond), b.Actor, b.Generation, b.Text)
}

// Say reports that the event e broke a promise. format and args describe the violation, as in [fmt.Sprintf].
type Say func(e Event, format string, args ...any)

// Promise is a property that Easel guarantees. Check calls its argument of type [Say] for each violation in a run.
type Promise[R any] struct {
	Name  string
	Check func(run R, say Say)
}

// All contains the promises that package simulation and package torture both check.
var All = []Promise[*Run]{
	{"an idempotency key is charged once", chargedOnce},
	{"a rejected order is not charged", rejectedIsNotCharged},
	{"an order that no call has placed is charged only if it is repeated", unplacedIsNotCharged},
	{"the ledger never reverts a state", ledgerNeverReverts},
	{"every cent of the account has one owner", everyCentHasAnOwner},
	{"no budget is exceeded", budgetsHold},
	{"the sums of orders equal the budgets", ordersEqualBudgets},
	{"the ledger equals its journal", ledgerEqualsJournal},
	{"every recorded event arrives, and no other", everyEventArrives},
	{"states never go backwards", statesGoForwards},
	{"no state is delivered twice in a row", noneTwice},
	{"the last state always arrives", lastStateArrives},
	{"OK means that the goal is reached", okMeansGoal},
	{"files arrive complete", filesAreComplete},
	{"no caller sees another owner's generation or a secret", nothingLeaks},
}

// Check checks the promises in list against a run, and returns all violations.
func Check[R any](list []Promise[R], run R) (broken []Broken) {
	for _, p := range list {
		p.Check(run, func(e Event, format string, args ...any) {
			broken = append(broken, Broken{Promise: p.Name, At: e.At, Actor: e.Actor, Generation: e.Generation, Text: fmt.Sprintf(format, args...)})
		})
	}
	return broken
}
