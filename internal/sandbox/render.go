package sandbox

import (
	"container/heap"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// event is a moment at which a generation takes its next step.
type event struct {
	at         time.Time
	generation int64
}

// queue holds the events to come, the soonest first.
type queue struct {
	mu     sync.Mutex
	events eventHeap
	wake   chan struct{} // holds one token when the soonest event may have changed
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// add queues the next step of a generation at a time in Unix nanoseconds. From here on the monotonic
// clock counts: setting the wall clock neither hurries nor delays a render.
func (q *queue) add(generation, at int64) {
	e := event{generation: generation, at: time.Now().Add(time.Until(time.Unix(0, at)))}
	q.mu.Lock()
	heap.Push(&q.events, e)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next removes the soonest event if its time has come. Otherwise it returns how long that will take, or
// less than 0 if there is no event at all.
func (q *queue) next() (e event, due bool, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return event{}, false, -1
	}
	if wait := time.Until(q.events[0].at); wait > 0 {
		return event{}, false, wait
	}
	return heap.Pop(&q.events).(event), true, 0
}

type eventHeap []event

func (h eventHeap) Len() int           { return len(h) }
func (h eventHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h eventHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(e any)        { *h = append(*h, e.(event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// recover queues every step that an earlier process left undone.
func (s *Sandbox) recover() error {
	var generations, keys int64
	if err := s.db.read.queryRow(`SELECT (SELECT COALESCE(MAX(id), 0) FROM generations),
		(SELECT COALESCE(MAX(id), 0) FROM accounts)`).Scan(&generations, &keys); err != nil {
		return err
	}
	s.dice = newDice(s.cfg.Seed, generations, keys)
	s.faults = newFaultBook(s.dice)
	return s.db.read.each(func(rows *sql.Rows) error {
		var id, due int64
		err := rows.Scan(&id, &due)
		s.queue.add(id, due)
		return err
	}, `SELECT id, due_at FROM generations WHERE due_at IS NOT NULL`)
}

// start runs the scheduler and the workers.
func (s *Sandbox) start() {
	jobs := make(chan event)
	s.workers.Go(func() { s.schedule(jobs) })
	for range s.cfg.Workers {
		s.workers.Go(func() {
			for e := range jobs {
				s.step(e)
			}
		})
	}
}

// schedule hands each event to a worker when its time has come.
func (s *Sandbox) schedule(jobs chan<- event) {
	defer close(jobs)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		e, due, wait := s.queue.next()
		if due {
			select {
			case jobs <- e:
			case <-s.done:
				return
			}
			continue
		}
		timer.Stop() // an idle sandbox has no timer at all
		if wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-s.queue.wake:
		case <-s.done:
			return
		}
	}
}

var errClosing = errors.New("sandbox: closing")

// step takes one generation one step further. A step that the database refused is tried again later.
func (s *Sandbox) step(e event) {
	g, err := scanGeneration(s.db.read.queryRow(selectGeneration+`WHERE id = ? AND deleted_at IS NULL`, e.generation))
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && g.due == 0:
		return // deleted meanwhile
	case err == nil && g.state == stateFailed:
		err = s.finishRefund(g)
	case err == nil && g.doom != "":
		err = s.fail(g, g.doom)
	case err == nil:
		err = s.produce(g)
	}
	if err == nil || errors.Is(err, errClosing) {
		return
	}
	s.cfg.Logger.Error("render step failed", "generation", g.publicID, "error", err)
	s.queue.add(e.generation, time.Now().Add(time.Second).UnixNano())
}

// produce draws the result and stores it. A model that cannot draw makes a failed render.
func (s *Sandbox) produce(g generation) error {
	made, err := draw(g)
	if err != nil {
		return s.fail(g, "The renderer failed: "+err.Error()+".")
	}
	if made.write != nil {
		g.contentType = made.contentType
		if g.contentSize, g.contentEtag, err = s.storeContent(g.id, made.write); err != nil {
			return err
		}
	}
	changed := false
	err = s.db.tx(func(tx link) (err error) {
		changed, err = tx.update(`UPDATE generations SET state = 'succeeded', due_at = NULL, finished_at = ?,
			content_type = ?, content_size = ?, content_etag = ?, text_output = ?
			WHERE id = ? AND state = 'queued' AND deleted_at IS NULL`,
			s.cfg.Now().UnixNano(), g.contentType, g.contentSize, g.contentEtag, made.text, g.id)
		return err
	})
	if err == nil && !changed {
		err = s.dropContent(g.id) // deleted while it was drawn
	}
	return err
}

func draw(g generation) (made artifact, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it stumbled: %v", p)
		}
	}()
	m, found := findModel(g.model)
	if !found {
		return artifact{}, errors.New("the model is gone")
	}
	var inputs map[string]any
	if err := decode([]byte(g.inputs), &inputs); err != nil {
		return artifact{}, err
	}
	v, err := checkObject("inputs.", m.fields, inputs)
	if err != nil {
		return artifact{}, err
	}
	return m.render(v)
}

// fail ends a render without a result. Where the refund belongs to the same step, it is booked in the
// same transaction.
func (s *Sandbox) fail(g generation, why string) error {
	state, due := stateFailed, sql.NullInt64{}
	switch s.cfg.Dialect.Refund {
	case RefundLater:
		due = sql.NullInt64{Int64: time.Now().Add(s.scaled(s.cfg.RefundDelay)).UnixNano(), Valid: true}
	case RefundAtOnce:
		state = stateRefunded
	}
	err := s.db.tx(func(tx link) error {
		changed, err := tx.update(`UPDATE generations SET state = ?, failure = ?, due_at = ?, finished_at = ?
			WHERE id = ? AND state = 'queued' AND deleted_at IS NULL`, state, why, due, s.cfg.Now().UnixNano(), g.id)
		if err != nil || !changed || due.Valid {
			return err
		}
		return s.refund(tx, g)
	})
	if err == nil && due.Valid {
		s.queue.add(g.id, due.Int64)
	}
	return err
}

// finishRefund is the second step of a failed render.
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
