package promises

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Arrival is an event that a team's receiver has accepted.
type Arrival struct {
	At                              time.Duration
	Process, Team                   string
	ID, Type, Subject, State, Fault string // Fault describes what is wrong with the event; empty if it is valid
	Percent                         int64  // threshold of a budget event, in percent
}

// NewArrival parses an event that a team has received. It sets Fault if the document is invalid, if the event belongs to
// another team, or if the event's Standard Webhooks signature was not made with secret.
func NewArrival(team, secret string, header http.Header, body []byte) Arrival {
	var document struct {
		ID, Type, Subject, Source string
		Percent                   int64
		Data                      struct{ GenerationID, State, Owner string }
	}
	a := Arrival{Team: team}
	if err := json.Unmarshal(body, &document); err != nil {
		a.Fault = err.Error()
	}
	a.ID, a.Type, a.Subject, a.State, a.Percent = document.ID, document.Type, document.Subject, document.Data.State, document.Percent
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", document.ID, header.Get("webhook-timestamp"), body)
	switch {
	case header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)):
		a.Fault = "the signature is invalid"
	case document.Source != "/easel/teams/"+team || document.Data.Owner != "" && document.Data.Owner != team:
		a.Fault = "the source is " + document.Source + ", and the owner is " + document.Data.Owner
	}
	return a
}

// requiredEvent is an event that a team's receiver must receive because of a change in the ledger.
type requiredEvent struct {
	team, kind, subject string
	percent             int64
}

// terminalEvents maps the terminal states in the ledger to event types.
var terminalEvents = map[lifecycle.Status]string{
	lifecycle.Failed: ledger.EventFailed, lifecycle.Succeeded: ledger.EventSucceeded, lifecycle.Refunded: ledger.EventRefunded,
}

// requiredEvents returns the events that are required by the changes in the ledger. It maps each event to the time of the first
// change that requires it.
func (r *Run) requiredEvents() map[requiredEvent]time.Duration {
	all, before := map[requiredEvent]time.Duration{}, map[string]Version{}
	add := func(e requiredEvent, at time.Duration) {
		if _, known := all[e]; !known {
			all[e] = at
		}
	}
	for _, v := range r.Versions {
		old := before[v.ID]
		before[v.ID] = v
		if !r.Receivers[v.Owner] {
			continue
		}
		if kind := terminalEvents[v.Status]; v.Status > old.Status && kind != "" {
			add(requiredEvent{v.Owner, kind, v.Generation, 0}, v.At)
		}
		if v.Deleted && !old.Deleted {
			add(requiredEvent{v.Owner, ledger.EventDeleted, v.Generation, 0}, v.At)
		}
	}
	for _, v := range r.Budgets {
		limit, limited := r.limit(v.Owner, v.Period)
		for _, percent := range []int64{80, 100} {
			if used := v.Spent + v.Reserved; r.Receivers[v.Owner] && limited && used > 0 && used*100 >= limit*percent {
				add(requiredEvent{v.Owner, ledger.EventBudget, v.Period + "." + v.Start.Format(time.DateOnly), percent}, v.At)
			}
		}
	}
	return all
}

// deliveryLimit is the maximum time until an event is delivered. It is counted from the change or from the end of the last
// fault, whichever is later.
const deliveryLimit = time.Minute + 5*time.Second

// everyEventArrives checks that each team receives an event for every change in the ledger that requires one, in order and
// within deliveryLimit. No other events may arrive, and the deliveries of one event must have the same ID.
func everyEventArrives(r *Run, say Say) {
	if !r.HasEvents {
		return
	}
	required := r.requiredEvents()
	ids, types, first := map[requiredEvent]string{}, map[string]requiredEvent{}, map[requiredEvent]time.Duration{}
	for _, a := range r.Arrivals {
		one, at := requiredEvent{a.Team, a.Type, a.Subject, a.Percent}, Event{At: a.At, Actor: a.Process, Generation: a.Subject}
		when, happened := required[one]
		switch {
		case a.Fault != "":
			say(at, "%s: %s", a.Type, a.Fault)
		case !happened || a.At < when:
			say(at, "event %s (threshold %d) was delivered to %s, but was not recorded before that", a.Type, a.Percent, a.Team)
		case ids[one] != "" && ids[one] != a.ID || types[a.ID] != requiredEvent{} && types[a.ID] != one:
			say(at, "event %s has two IDs, or its ID has two events: %s and %s", a.Type, ids[one], a.ID)
		case a.Type != ledger.EventBudget && !strings.HasSuffix(a.Type, "."+strings.ToLower(strings.TrimPrefix(a.State, "STATE_"))):
			say(at, "event %s reports the state %s", a.Type, a.State)
		}
		ids[one], types[a.ID] = a.ID, one
		if _, again := first[one]; !again {
			first[one] = a.At
		}
		for earlier, since := range required {
			_, arrived := first[earlier]
			if earlier.team == one.team && earlier.subject == one.subject && earlier != one && since < when && !arrived {
				say(at, "event %s was delivered before the earlier event %s", one.kind, earlier.kind)
			}
		}
	}
	for one, when := range required {
		arrived, ok := first[one]
		if !ok {
			arrived = r.End
		}
		if due := max(r.Healed, when) + deliveryLimit; arrived > due {
			say(Event{At: when, Actor: one.team, Generation: one.subject}, "event %s (threshold %d) was recorded, but not delivered %v after all faults had ended", one.kind, one.percent, arrived-max(r.Healed, when))
		}
	}
}
