package sandbox

import (
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"time"
)

const (
	stateQueued    = "queued"
	stateSucceeded = "succeeded"
	stateFailed    = "failed"
	stateRefunded  = "refunded"
)

// generation is a row of the table generations. Times are in Unix nanoseconds. A time is zero if its event has neither happened
// nor been scheduled.
type generation struct {
	id, account              int64
	publicID                 string
	hash                     []byte
	model, inputs            string
	cost                     int64
	state                    string
	failsWith                string
	created, starts, due     int64
	finished                 int64
	failure                  string
	contentType, contentEtag string
	contentSize              int64
	text                     string
	deleted                  bool
}

const generationColumns = `id, account, public_id, request_hash, model, inputs, cost, state, doom, created_at,
	starts_at, COALESCE(due_at, 0), COALESCE(finished_at, 0), failure, content_type, content_etag, content_size,
	text_output, deleted_at IS NOT NULL`

const selectGeneration = `SELECT ` + generationColumns + ` FROM generations `

func scanGeneration(row interface{ Scan(...any) error }) (g generation, err error) {
	err = row.Scan(&g.id, &g.account, &g.publicID, &g.hash, &g.model, &g.inputs, &g.cost, &g.state, &g.failsWith, &g.created,
		&g.starts, &g.due, &g.finished, &g.failure, &g.contentType, &g.contentEtag, &g.contentSize, &g.text, &g.deleted)
	return g, err
}

var errNoGeneration = &apiError{status: http.StatusNotFound, code: "GENERATION_NOT_FOUND", message: "There is no such generation."}

// findGeneration returns an account's generation with the given public ID. It returns errNoGeneration if the generation does
// not exist, is deleted, or belongs to another account.
func findGeneration(from link, account int64, publicID string) (generation, error) {
	g, err := scanGeneration(from.queryRow(selectGeneration+
		`WHERE public_id = ? AND account = ? AND deleted_at IS NULL`, publicID, account))
	if errors.Is(err, sql.ErrNoRows) {
		return g, errNoGeneration
	}
	return g, err
}

// insertGeneration charges an account for a new generation and queues the generation, in one transaction. If the idempotency
// key was used before, insertGeneration charges nothing. It then returns the earlier generation and true, or an error if the
// earlier order differs from o.
func (s *Sandbox) insertGeneration(who account, o order, idempotencyKey string) (g generation, replayed bool, err error) {
	scope := int64(0)
	if s.cfg.Repeats.PerAPIKey {
		scope = who.key
	}
	err = s.db.tx(func(tx link) error {
		if s.cfg.Repeats.MoneyFirst {
			if err := s.checkCharge(tx, who, o.price); err != nil {
				return err
			}
		}
		if err := s.forgetKeys(tx); err != nil {
			return err
		}
		earlier, err := scanGeneration(tx.queryRow(selectGeneration+
			`WHERE account = ? AND key_scope = ? AND idempotency_key = ?`, who.id, scope, idempotencyKey))
		if err == nil {
			g, replayed = earlier, true
			return sameRequest(earlier, o)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if g, err = insertGeneration(tx, s.newGeneration(who, o), scope, idempotencyKey); err != nil {
			return err
		}
		return s.charge(tx, who, g)
	})
	if err != nil || replayed {
		return g, replayed, err
	}
	s.scheduleStep(g.id, g.due)
	return g, false, nil
}

// forgetKeys releases idempotency keys that are older than Repeats.Forget, so that new orders can use them. It does not delete
// the keys, but changes their key_scope to a value that no new order has.
func (s *Sandbox) forgetKeys(tx link) error {
	if s.cfg.Repeats.Forget == 0 {
		return nil
	}
	_, err := tx.exec(`UPDATE generations SET key_scope = -id WHERE key_scope >= 0 AND created_at <= ?`, time.Now().Add(-s.cfg.Repeats.Forget).UnixNano())
	return err
}

func sameRequest(g generation, o order) error {
	if string(g.hash) == string(o.hash) {
		return nil
	}
	return &apiError{
		status: http.StatusUnprocessableEntity, code: "IDEMPOTENCY_KEY_REUSED", field: "Idempotency-Key",
		message: "This Idempotency-Key was used with another body.",
	}
}

// newGeneration returns a generation with a random ID and duration. It does not store the generation. The generation will fail
// if its prompt contains [fail], and otherwise with the probability Config.FailureRate.
func (s *Sandbox) newGeneration(who account, o order) generation {
	takes := s.scaleDuration(s.random.duration(o.model.pace))
	now := time.Now()
	g := generation{
		account: who.id, publicID: "gen_" + s.random.token(20), hash: o.hash, model: o.model.id, inputs: o.inputs,
		cost: o.price, state: stateQueued, created: time.Now().UnixNano(),
		starts: now.Add(takes / 5).UnixNano(), due: now.Add(takes).UnixNano(),
	}
	if s.cfg.Dialect.NumericIDs {
		g.publicID = s.random.number()
	}
	if s.random.chance(s.cfg.FailureRate) {
		g.failsWith = "The renderer ran out of memory."
	}
	if strings.Contains(o.values.Text("prompt"), "[fail]") {
		g.failsWith = "The prompt asked for a failure."
	}
	return g
}

// scaleDuration returns a duration divided by the sandbox's speed.
func (s *Sandbox) scaleDuration(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.cfg.Speed)
}

func insertGeneration(tx link, g generation, scope int64, idempotencyKey string) (generation, error) {
	return scanGeneration(tx.queryRow(`INSERT INTO generations (account, public_id, key_scope, idempotency_key, request_hash, model, inputs, cost,
		state, doom, created_at, starts_at, due_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING `+generationColumns,
		g.account, g.publicID, scope, sql.NullString{String: idempotencyKey, Valid: idempotencyKey != ""}, g.hash, g.model, g.inputs,
		g.cost, g.state, g.failsWith, g.created, g.starts, g.due))
}

// recentGenerations returns an account's newest generations, newest first. Their number is limited by the dialect's ListLimit.
func (s *Sandbox) recentGenerations(account int64) (list []generation, err error) {
	err = s.db.forEachRow(func(rows *sql.Rows) error {
		g, err := scanGeneration(rows)
		list = append(list, g)
		return err
	}, selectGeneration+`WHERE account = ? AND deleted_at IS NULL ORDER BY id DESC LIMIT ?`,
		account, s.cfg.Dialect.listLimit())
	return list, err
}

// removeGeneration marks a generation as deleted, and deletes its stored file. An unfinished generation is not refunded. A
// failed generation whose refund is pending is refunded immediately.
func (s *Sandbox) removeGeneration(account int64, publicID string) error {
	return s.db.tx(func(tx link) error {
		g, err := findGeneration(tx, account, publicID)
		if err != nil {
			return err
		}
		state := g.state
		if g.state == stateFailed && g.due != 0 {
			state = stateRefunded
			if err := s.refund(tx, g); err != nil {
				return err
			}
		}
		if _, err := tx.exec(`UPDATE generations SET deleted_at = ?, due_at = NULL, state = ? WHERE id = ?`,
			time.Now().UnixNano(), state, g.id); err != nil {
			return err
		}
		_, err = tx.exec(`DELETE FROM content WHERE generation = ?`, g.id)
		return err
	})
}
