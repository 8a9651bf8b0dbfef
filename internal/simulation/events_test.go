package simulation

import (
	"crypto/hmac"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/service"
)

// In a world with events, each team has a receiver that is at times dead, slow, returns 500, or
// accepts an event without a response. From the end of the plan on, all receivers work.

// eventSecret signs the events of all teams.
const eventSecret = "whsec_c2ltdWxhdGVkX3NlY3JldCB0aGF0IHNpZ25zIGV2ZW50cw=="

// arrival is an event that a receiver has got.
type arrival struct {
	at                              time.Duration
	process, team                   string
	id, kind, subject, state, fault string
	percent                         int64
}

// receivers has the receivers of all teams.
type receivers struct {
	world *world

	mu  sync.Mutex
	all []arrival
}

// subscribers returns the teams that get events. The first tenant is a caller without a team.
func (w *world) subscribers() map[string]events.Team {
	teams := map[string]events.Team{}
	if !w.plan.Events {
		return teams
	}
	for i, name := range w.plan.tenantNames()[1:] {
		team := events.Team{URL: "https://" + name + "/events", SecretFile: filepath.Join(filepath.Dir(w.callersFile), "secret")}
		switch {
		case name == thrifty:
			team.Limits = ledger.Limits{DailyCents: new(w.plan.Budget), MonthlyCents: new(w.plan.Budget * 3 / 2)}
		case i%2 == 0:
			team.Limits = ledger.Limits{MonthlyCents: new(int64(1000000))}
		}
		teams[name] = team
	}
	return teams
}

// outbox returns the data with which a process writes events.
func (p *process) outbox(w *world) *ledger.Outbox {
	if !w.plan.Events {
		return nil
	}
	p.teams = &events.Teams{}
	p.teams.Set(w.subscribers())
	data := service.EventData{Catalog: "http://catalog" + sandbox.BasePath}
	return &ledger.Outbox{Teams: p.teams.Known, Generation: data.Generation, Budget: data.Budget}
}

// kinds returns the kinds of jobs that easel serve runs.
func (p *process) kinds(w *world) []jobs.Kind {
	kinds := []jobs.Kind{jobs.Prune(p.book), jobs.Retention(p.book)}
	if w.plan.Events {
		kinds = append(kinds, events.New(events.Config{Ledger: p.book, Teams: p.teams, Logger: w.logger(), Transport: wayToReceivers{w.receivers, p}}).Kinds()...)
	}
	return kinds
}

func (w *world) writeSecret(dir string) error {
	return os.WriteFile(filepath.Join(dir, "secret"), []byte(eventSecret+"\n"), 0o600)
}

// wayToReceivers is the connection of one process to the receivers.
type wayToReceivers struct {
	*receivers
	process *process
}

// mood is the behavior of a receiver.
type mood int

const (
	receiverWell mood = iota
	receiverWellToo
	receiverDead
	receiverDeadFor10Minutes
	receiverSlow
	receiverBroken
	receiverMute // it accepts an event, and its response is lost
)

// mood changes with time, by the seed.
func (r *receivers) mood(team string) mood {
	since := r.world.history.since()
	if since > r.world.plan.Length {
		return receiverWell
	}
	if team == thrifty && since < 10*time.Minute {
		return receiverDeadFor10Minutes
	}
	return mood(mix(r.world.seed("receiver "+team+strconv.Itoa(int(since/(20*time.Second))))) % 7)
}

// RoundTrip delivers an event, or simulates a failure.
func (w wayToReceivers) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	if err := w.process.gateway.alive(); err != nil { // requests of a dead process are lost
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	team := r.URL.Host
	switch w.mood(team) {
	case receiverDead, receiverDeadFor10Minutes:
		return nil, errors.New("connection refused")
	case receiverSlow:
		if err := wait(r.Context(), 4*time.Second+time.Duration(mix(w.world.seed(string(body)))%uint64(9*time.Second))); err != nil {
			return nil, err
		}
	case receiverBroken:
		return answerOf(r, http.StatusInternalServerError), nil
	case receiverMute:
		w.take(team, r, body)
		return nil, errors.New("connection reset")
	}
	if err := w.process.gateway.alive(); err != nil {
		return nil, err
	}
	w.take(team, r, body)
	return answerOf(r, http.StatusNoContent), nil
}

func answerOf(r *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}
}

// take records an event that has arrived.
func (w wayToReceivers) take(team string, r *http.Request, body []byte) {
	var document struct {
		ID, Type, Subject, Source string
		Percent                   int64
		Data                      struct{ GenerationID, State, Owner string }
	}
	a := arrival{at: w.world.history.since(), process: w.process.name, team: team}
	if err := json.Unmarshal(body, &document); err != nil {
		a.fault = err.Error()
	}
	a.id, a.kind, a.subject, a.state, a.percent = document.ID, strings.TrimPrefix(document.Type, "easel."), document.Subject, document.Data.State, document.Percent
	switch {
	case r.Header.Get("webhook-signature") != signature(document.ID, r.Header.Get("webhook-timestamp"), body):
		a.fault = "it is signed otherwise"
	case document.Source != "/easel/teams/"+team || document.Data.Owner != "" && document.Data.Owner != team:
		a.fault = "it is of " + document.Source + " and of " + document.Data.Owner
	case w.world.holdsKey(string(body)) || strings.Contains(string(body), "://catalog"):
		a.fault = "it has a key or the catalog's address in it"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, a)
}

// signature returns the signature of an event as defined by Standard Webhooks.
func signature(id, timestamp string, body []byte) string {
	secret, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(eventSecret, "whsec_"))
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// expected is a recorded event that must be delivered.
type expected struct {
	team, kind, subject string
	percent             int64
}

// eventStates are the kinds of events, by the state that the ledger records.
var eventStates = map[lifecycle.Status]string{lifecycle.Failed: "generation.failed", lifecycle.Succeeded: "generation.succeeded", lifecycle.Refunded: "generation.refunded"}

// recorded returns the events that the journal of the ledger requires.
func (o *outcome) recorded(teams map[string]events.Team) map[expected]time.Duration {
	all, before := map[expected]time.Duration{}, map[string]change{}
	add := func(e expected, at time.Duration) {
		if _, known := all[e]; !known {
			all[e] = at
		}
	}
	for _, c := range o.changes {
		b := before[c.id]
		before[c.id] = c
		if _, subscribed := teams[c.owner]; !subscribed {
			continue
		}
		if kind := eventStates[c.status]; c.status > b.status && kind != "" {
			add(expected{c.owner, kind, c.generation, 0}, c.at)
		}
		if c.deleted && !b.deleted {
			add(expected{c.owner, "generation.deleted", c.generation, 0}, c.at)
		}
	}
	for _, b := range o.budgets {
		limits := map[string]*int64{"day": teams[b.owner].Limits.DailyCents, "month": teams[b.owner].Limits.MonthlyCents}
		limit := limits[b.period]
		for _, percent := range []int64{80, 100} {
			if used := b.spent + b.reserved; limit != nil && used > 0 && used*100 >= *limit*percent {
				add(expected{b.owner, "budget.threshold", b.period + "." + b.start.Format(time.DateOnly), percent}, b.at)
			}
		}
	}
	return all
}

// everyEventArrives compares the events that arrived with the journal of the ledger.
func everyEventArrives(o *outcome, say func(event, string, ...any)) {
	if !o.plan.Events {
		return
	}
	ids, first, recorded := map[expected]string{}, map[expected]time.Duration{}, o.recorded(o.subscribers)
	of := map[string]expected{}
	for _, a := range o.arrivals {
		one, at := expected{a.team, a.kind, a.subject, a.percent}, event{at: a.at, actor: a.process, gen: a.subject}
		when, happened := recorded[one]
		switch {
		case a.fault != "":
			say(at, "%s: %s", a.kind, a.fault)
		case !happened || a.at < when:
			say(at, "%s %d was delivered to %s, and was not recorded", a.kind, a.percent, a.team)
		case ids[one] != "" && ids[one] != a.id || of[a.id] != expected{} && of[a.id] != one:
			say(at, "%s has the ids %s and %s", a.kind, ids[one], a.id)
		case a.kind != "budget.threshold" && !strings.HasSuffix(a.kind, "."+strings.ToLower(strings.TrimPrefix(a.state, "STATE_"))):
			say(at, "%s has the state %s", a.kind, a.state)
		}
		ids[one], of[a.id] = a.id, one
		if _, again := first[one]; !again {
			first[one] = a.at
		}
		for kind := range recorded {
			_, arrived := first[kind]
			if kind.team == one.team && kind.subject == one.subject && kind != one && recorded[kind] < when && !arrived {
				say(at, "%s was delivered before %s", one.kind, kind.kind)
			}
		}
	}
	const minute = time.Minute + 5*time.Second
	for one, when := range recorded {
		arrived, ok := first[one]
		if !ok {
			arrived = o.end
		}
		if due := max(o.healed, when) + minute; arrived > due {
			say(event{at: when, actor: one.team, gen: one.subject}, "%s %d was recorded and not delivered %v after all was well", one.kind, one.percent, arrived-max(o.healed, when))
		}
	}
}

// readStates adds to the journal what events are about.
func readStates(c *change, row []driver.Value) {
	status, _ := row[16].(int64)
	deleted, _ := row[17].(int64)
	c.status, c.deleted = lifecycle.Status(status), deleted == 1
}
