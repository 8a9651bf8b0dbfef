package simulation

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/service"
)

// If the simulated world has events, each team has a receiver. At times, a receiver is down or slow, returns 500, or
// accepts an event without responding. After the planned length of the run, all receivers work.

// eventSecret is the secret with which all teams' events are signed.
const eventSecret = "whsec_c2ltdWxhdGVkX3NlY3JldCB0aGF0IHNpZ25zIGV2ZW50cw=="

// receivers simulates the receivers of all teams.
type receivers struct {
	world *world

	mu  sync.Mutex
	all []promises.Arrival
}

// limitsOfTeams returns the budget limits in the callers file, keyed by team. It omits teams without limits.
func (w *world) limitsOfTeams() map[string]ledger.Limits {
	limits := map[string]ledger.Limits{}
	for i, name := range w.plan.tenantNames() {
		switch {
		case !w.plan.Ledger || i == 0: // without a ledger, there are no teams; with one, every tenant except the first has a team
		case name == thrifty:
			limits[name] = ledger.Limits{DailyCents: new(w.plan.Budget), MonthlyCents: new(monthlyBudget(w.plan.Budget))}
		case i%2 == 1:
			limits[name] = ledger.Limits{MonthlyCents: new(int64(1000000))}
		}
	}
	return limits
}

// receivingTeams returns the names of the teams that receive events.
func (w *world) receivingTeams() map[string]bool {
	teams := map[string]bool{}
	for name := range w.subscribers() {
		teams[name] = true
	}
	return teams
}

// subscribers returns the teams that receive events. The first tenant is not included, because it has no team.
func (w *world) subscribers() map[string]events.Team {
	teams := map[string]events.Team{}
	if !w.plan.Events {
		return teams
	}
	limits := w.limitsOfTeams()
	for _, name := range w.plan.tenantNames()[1:] {
		teams[name] = events.Team{
			URL: "https://" + name + "/events", SecretFile: filepath.Join(filepath.Dir(w.callersFile), "secret"), Limits: limits[name],
		}
	}
	return teams
}

// eventConfig returns the configuration for writing events to the ledger, or nil if the world has no events.
func (p *process) eventConfig(w *world) *ledger.EventConfig {
	if !w.plan.Events {
		return nil
	}
	p.teams = &events.Teams{}
	p.teams.Set(w.subscribers())
	data := service.EventData{Catalog: "http://catalog" + sandbox.BasePath}
	return &ledger.EventConfig{Teams: p.teams.Known, Generation: data.Generation, Budget: data.Budget}
}

// kinds returns the kinds of background jobs that the process runs.
func (p *process) kinds(w *world) []jobs.Kind {
	kinds := []jobs.Kind{jobs.Prune(p.ledger), jobs.Retention(p.ledger)}
	if w.plan.Events {
		kinds = append(kinds, events.New(events.Config{Ledger: p.ledger, Teams: p.teams, Logger: w.logger(), Transport: wayToReceivers{w.receivers, p}}).Kinds()...)
	}
	return kinds
}

func (w *world) writeSecret(dir string) error {
	return os.WriteFile(filepath.Join(dir, "secret"), []byte(eventSecret+"\n"), 0o600)
}

// wayToReceivers is a process's HTTP transport to the receivers of events.
type wayToReceivers struct {
	*receivers
	process *process
}

// mood is the behavior of a receiver at a given time.
type mood int

const (
	receiverWell mood = iota
	receiverWellToo
	receiverDead
	receiverDeadFor10Minutes
	receiverSlow
	receiverBroken
	receiverMute // the receiver accepts an event, but its response is lost
)

// mood returns the current behavior of a team's receiver. It is determined by the team, the time and the seed.
func (r *receivers) mood(team string) mood {
	since := r.world.history.Since()
	if since > r.world.plan.Length {
		return receiverWell
	}
	if team == thrifty && since < 10*time.Minute {
		return receiverDeadFor10Minutes
	}
	return mood(mix(r.world.seed("receiver "+team+strconv.Itoa(int(since/(20*time.Second))))) % 7)
}

// RoundTrip delivers an event or simulates a failure of the receiver.
func (w wayToReceivers) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	if err := w.process.gateway.awaitAlive(); err != nil { // fails if the process is dead
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
		w.recordEvent(team, r, body)
		return nil, errors.New("connection reset")
	}
	if err := w.process.gateway.awaitAlive(); err != nil {
		return nil, err
	}
	w.recordEvent(team, r, body)
	return answerOf(r, http.StatusNoContent), nil
}

func answerOf(r *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}
}

// recordEvent records an event that was delivered to a receiver.
func (w wayToReceivers) recordEvent(team string, r *http.Request, body []byte) {
	a := promises.NewArrival(team, eventSecret, r.Header, body)
	a.At, a.Process = w.world.history.Since(), w.process.name
	if w.world.holdsKey(string(body)) || strings.Contains(string(body), "://catalog") {
		a.Fault = "it has a key or the catalog's address in it"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, a)
}
