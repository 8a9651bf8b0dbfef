package simulation

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The polls that processes share stand in two tables of the ledger's database. It notifies all who listen of changes, as
// PostgreSQL does, and a crash of it empties the tables.

// journalOfPolls is what the database keeps of polls: claims of them, answers to them, and rows that are deleted. The
// sweep has no id.
var journalOfPolls = []string{
	`CREATE TABLE simulated_polls (at, what, id, claimed, seen)`,
	`CREATE TABLE simulated_notices (api_key)`,
	`CREATE TRIGGER simulated_sweep AFTER UPDATE ON shared_keys WHEN NEW.swept_time <> OLD.swept_time BEGIN
		INSERT INTO simulated_polls VALUES ({now}, 'claim', '', NEW.swept_time, NEW.seen_time); END`,
	`CREATE TRIGGER simulated_swept AFTER UPDATE ON shared_keys WHEN NEW.seen_time <> OLD.seen_time BEGIN
		INSERT INTO simulated_polls VALUES ({now}, 'found', '', NEW.swept_time, NEW.seen_time); END`,
	`CREATE TRIGGER simulated_first_claim AFTER INSERT ON shared_states WHEN NEW.claimed_time > 0 BEGIN
		INSERT INTO simulated_polls VALUES ({now}, 'claim', NEW.id, NEW.claimed_time, NEW.seen_time); END`,
	`CREATE TRIGGER simulated_claim AFTER UPDATE ON shared_states WHEN NEW.claimed_time <> OLD.claimed_time BEGIN
		INSERT INTO simulated_polls VALUES ({now}, 'claim', NEW.id, NEW.claimed_time, NEW.seen_time); END`,
	`CREATE TRIGGER simulated_found AFTER UPDATE ON shared_states WHEN NEW.seen_time <> OLD.seen_time BEGIN
		INSERT INTO simulated_polls VALUES ({now}, 'found', NEW.id, NEW.claimed_time, NEW.seen_time); END`,
	`CREATE TRIGGER simulated_deletion AFTER DELETE ON shared_states BEGIN
		INSERT INTO simulated_polls VALUES ({now}, 'deleted', OLD.id, OLD.claimed_time, OLD.seen_time); END`,
	`CREATE TRIGGER simulated_notice AFTER UPDATE ON shared_keys WHEN NEW.version <> OLD.version OR NEW.paused_until > OLD.paused_until BEGIN
		INSERT INTO simulated_notices VALUES (NEW.api_key); END`,
}

// pollChange is a line of the journal of polls. All times are those of the world.
type pollChange struct {
	at            time.Duration
	what, id      string // the id of a sweep is ""
	claimed, seen time.Duration
}

// listening is a process that hears of changes.
type listening struct {
	notices chan string
	lost    chan struct{} // closed when its connection is lost
}

// mostNotices are those that a process may have before it; one that stands still has a minute's.
const mostNotices = 10_000

// connectTime is how long a connection may take.
const connectTime = 10 * time.Second

// listen is LISTEN of a process: it hears of what is committed from now on, until its connection is lost.
func (g *gateway) listen(ctx context.Context, heard func(apiKey string)) error {
	connecting, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if err := g.reach(connecting); err != nil {
		return err
	}
	own := g.database.listen()
	defer g.database.stopListening(own)
	heard("")
	for {
		select {
		case apiKey := <-own.notices:
			if _, mute := g.database.troubles(g, ledgerMute); mute {
				continue // it vanishes
			}
			if err := g.reach(ctx); err != nil {
				return err
			}
			heard(apiKey)
		case <-own.lost:
			return errors.New("the connection was lost")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *database) listen() *listening {
	own := &listening{notices: make(chan string, mostNotices), lost: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listening = append(d.listening, own)
	return own
}

func (d *database) stopListening(own *listening) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listening = slices.DeleteFunc(d.listening, func(one *listening) bool { return one == own })
}

// takeNotices takes the notifications of a transaction, which has the turn.
func (d *database) takeNotices() (apiKeys []string) {
	none := driver.NamedValue{Ordinal: 1, Value: int64(0)}
	rows, err := d.query(`SELECT DISTINCT api_key FROM simulated_notices WHERE rowid > $1`, none)
	if err != nil {
		d.world.problem("no notifications: %v", err)
		return nil
	}
	for row := make([]driver.Value, 1); rows.Next(row) == nil; {
		apiKeys = append(apiKeys, row[0].(string))
	}
	if len(apiKeys) > 0 {
		if _, err := d.exec(`DELETE FROM simulated_notices WHERE rowid > $1`, none); err != nil {
			d.world.problem("notifications stay: %v", err)
		}
	}
	return apiKeys
}

// notify tells all who listen of changes under API keys, but those whose notifications are lost.
func (d *database) notify(apiKeys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, apiKey := range apiKeys {
		if d.trouble.sort == noNotices {
			d.met += len(d.listening)
			continue
		}
		for _, one := range d.listening {
			select {
			case one.notices <- apiKey:
			default:
				d.world.problem("a process has %d notifications before it", mostNotices)
			}
		}
	}
}

// crash empties the tables of polls, as the crash of the database does: they are not logged. Whoever listens is cut off.
func (d *database) crash() (emptied int64) {
	_ = d.lock(context.Background())
	defer d.unlock()
	d.world.noteCrash()
	for _, table := range []string{"shared_states", "shared_keys"} {
		result, err := d.exec("DELETE FROM " + table)
		if err != nil {
			d.world.problem("%s is not emptied: %v", table, err)
			return 0
		}
		rows, _ := result.RowsAffected() // SQLite always knows
		emptied += rows
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.listening {
		close(one.lost)
	}
	d.listening = nil
	return emptied
}

// stepsOfPolls are the steps of polls before and after the commit.
func (c *ledgerConn) stepsOfPolls() (before, after step) {
	count := func(what string) int64 {
		return c.gateway.database.number(fmt.Sprintf(`SELECT COUNT(*) FROM simulated_polls WHERE rowid > %d AND what = '%s'`, c.polled, what))
	}
	if count("claim") > 0 {
		return noStep, stepAfterClaim
	}
	if count("found") > 0 {
		return stepBeforeFound, noStep
	}
	return noStep, noStep
}

// readPolls reads what the database has noted of polls, and what rows are left.
func (w *world) readPolls(o *outcome) {
	w.rows(`SELECT * FROM simulated_polls ORDER BY rowid`, func(row []driver.Value) {
		o.polled = append(o.polled, pollChange{
			at: w.ledgerTime(row[0].(int64)), what: row[1].(string), id: row[2].(string), claimed: w.ledgerTime(row[3].(int64)), seen: w.ledgerTime(row[4].(int64)),
		})
	})
	w.rows(`SELECT id, claimed_time, seen_time FROM shared_states ORDER BY id`, func(row []driver.Value) {
		o.rows = append(o.rows, pollChange{id: row[0].(string), claimed: w.ledgerTime(row[1].(int64)), seen: w.ledgerTime(row[2].(int64))})
	})
}

// stop is when a process was killed, or stopped for a while, between the claim of a poll and its answer.
type stop struct {
	at      time.Duration
	process string
}

func (w *world) noteCrash() {
	at := w.history.since()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.crashes = append(w.crashes, at)
}

func (w *world) noteStop(process string) {
	at := w.history.since()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops = append(w.stops, stop{at, process})
}
