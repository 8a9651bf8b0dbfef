package sandbox

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox/paint"
)

// resumeSteps creates the random source from the seed and the highest IDs of the stored generations and accounts. It then
// schedules the steps that earlier processes did not run.
func (s *Sandbox) resumeSteps() error {
	var generations, keys int64
	if err := s.db.queryRow(`SELECT (SELECT COALESCE(MAX(id), 0) FROM generations),
		(SELECT COALESCE(MAX(id), 0) FROM accounts)`).Scan(&generations, &keys); err != nil {
		return err
	}
	s.random = newRandomSource(s.cfg.Seed, generations, keys)
	return s.db.forEachRow(func(rows *sql.Rows) error {
		var id, due int64
		err := rows.Scan(&id, &due)
		s.scheduleStep(id, due)
		return err
	}, `SELECT id, due_at FROM generations WHERE due_at IS NOT NULL`)
}

// scheduleStep starts a goroutine that waits and then runs the next step of a generation. stepTime is the time of the step, in
// Unix nanoseconds. The waiting time is computed once, so later changes of the system clock do not affect it.
func (s *Sandbox) scheduleStep(generation, stepTime int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return // the sandbox is closed; the next process that opens the file runs the step
	}
	wait := time.Until(time.Unix(0, stepTime))
	s.steps.Go(func() {
		s.sleep(wait, nil)
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		if !s.isClosed() {
			s.runNextStep(generation)
		}
	})
}

var errClosing = errors.New("sandbox: closing")

// runNextStep runs the next step of a generation. If an error occurs, it schedules the step again in a second.
func (s *Sandbox) runNextStep(generation int64) {
	g, err := scanGeneration(s.db.queryRow(selectGeneration+`WHERE id = ? AND deleted_at IS NULL`, generation))
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && g.due == 0:
		return // the generation was deleted, or no step is left
	case err == nil && g.state == stateFailed:
		err = s.finishRefund(g)
	case err == nil && g.failsWith != "":
		err = s.failGeneration(g, g.failsWith)
	case err == nil:
		err = s.finishGeneration(g)
	}
	if err == nil || errors.Is(err, errClosing) {
		return
	}
	s.cfg.Logger.Error("render step failed", "generation", g.publicID, "error", err)
	s.scheduleStep(generation, time.Now().Add(time.Second).UnixNano())
}

// finishGeneration renders the result of a generation, stores it, and marks the generation as succeeded. If the result can't be
// rendered, it marks the generation as failed.
func (s *Sandbox) finishGeneration(g generation) error {
	made, err := produce(g)
	if err != nil {
		return s.failGeneration(g, "The renderer failed: "+err.Error()+".")
	}
	if made.Write != nil {
		g.contentType = made.ContentType
		if g.contentSize, g.contentEtag, err = s.storeContent(g.id, made.Write); err != nil {
			return err
		}
	}
	changed := false
	err = s.db.tx(func(tx link) (err error) {
		changed, err = tx.update(`UPDATE generations SET state = 'succeeded', due_at = NULL, finished_at = ?,
			content_type = ?, content_size = ?, content_etag = ?, text_output = ?
			WHERE id = ? AND state = 'queued' AND deleted_at IS NULL`,
			time.Now().UnixNano(), g.contentType, g.contentSize, g.contentEtag, made.Text, g.id)
		return err
	})
	if err == nil && !changed {
		err = s.dropContent(g.id) // the generation was deleted in the meantime
	}
	return err
}

func produce(g generation) (made paint.Artifact, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	m, found := findModel(g.model)
	if !found {
		return paint.Artifact{}, errors.New("unknown model")
	}
	var inputs map[string]any
	if err := decodeJSON([]byte(g.inputs), &inputs); err != nil {
		return paint.Artifact{}, err
	}
	v, err := checkObject("inputs.", m.fields, inputs)
	if err != nil {
		return paint.Artifact{}, err
	}
	return m.render(v), nil
}

// failGeneration marks a generation as failed for the given reason. Depending on the dialect, failGeneration either refunds the
// generation in the same transaction or schedules the refund for later.
func (s *Sandbox) failGeneration(g generation, reason string) error {
	state, due := stateFailed, sql.NullInt64{}
	switch s.cfg.Dialect.Refund {
	case RefundLater:
		due = sql.NullInt64{Int64: time.Now().Add(s.scaleDuration(s.cfg.RefundDelay)).UnixNano(), Valid: true}
	case RefundAtOnce:
		state = stateRefunded
	}
	err := s.db.tx(func(tx link) error {
		changed, err := tx.update(`UPDATE generations SET state = ?, failure = ?, due_at = ?, finished_at = ?
			WHERE id = ? AND state = 'queued' AND deleted_at IS NULL`, state, reason, due, time.Now().UnixNano(), g.id)
		if err != nil || !changed || due.Valid {
			return err
		}
		return s.refund(tx, g)
	})
	if err == nil && due.Valid {
		s.scheduleStep(g.id, due.Int64)
	}
	return err
}

// finishRefund refunds a failed generation whose refund is due.
func (s *Sandbox) finishRefund(g generation) error {
	return s.db.tx(func(tx link) error {
		changed, err := tx.update(`UPDATE generations SET state = 'refunded', due_at = NULL
			WHERE id = ? AND state = 'failed' AND due_at IS NOT NULL AND deleted_at IS NULL`, g.id)
		if err != nil || !changed {
			return err
		}
		return s.refund(tx, g)
	})
}
