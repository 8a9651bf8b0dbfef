package sandbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Entry is one entry in an account's ledger. Cents is positive for a top-up or refund, and negative for a charge.
type Entry struct {
	Kind         string    `json:"kind"` // "top_up", "charge" or "refund"
	Cents        int64     `json:"cents"`
	BalanceCents int64     `json:"balanceCents"` // balance of the account after this entry
	GenerationID string    `json:"generationId,omitempty"`
	Note         string    `json:"note,omitempty"`
	Time         time.Time `json:"time"`
}

// AuditedGeneration is the history of a generation, even of a deleted one. Status has the same values in every dialect:
// "queued" before the time FinishedAt, and then "succeeded", "failed" or "refunded". Times are in UTC. A time is zero if the
// event has not happened.
type AuditedGeneration struct {
	ID             string    `json:"id"`
	IdempotencyKey string    `json:"idempotencyKey,omitempty"`
	Model          string    `json:"model"`
	Status         string    `json:"status"`
	CreatedAt      time.Time `json:"createdAt,omitzero"`
	FinishedAt     time.Time `json:"finishedAt,omitzero"`
	RefundedAt     time.Time `json:"refundedAt,omitzero"`
	CostCents      int64     `json:"costCents"`
	Charges        int       `json:"charges"` // number of charge entries
	Refunds        int       `json:"refunds"` // number of refund entries
	Deleted        bool      `json:"deleted,omitempty"`
}

// Audit contains an account's ledger entries, the sums of the entries of each kind, and the account's generations.
type Audit struct {
	Entries      []Entry             `json:"entries"` // oldest first
	Generations  []AuditedGeneration `json:"generations"`
	TopUpCents   int64               `json:"topUpCents"`
	ChargeCents  int64               `json:"chargeCents"` // sum of the charged amounts; not negative
	RefundCents  int64               `json:"refundCents"`
	BalanceCents int64               `json:"balanceCents"` // balance that GET /me returns
	// ChargesByIdempotencyKey maps each Idempotency-Key to the number of its charges. It omits keys whose orders were all
	// rejected.
	ChargesByIdempotencyKey map[string]int `json:"chargesByIdempotencyKey"`
}

// Audit returns the audit of an API key's account, even if the API key was revoked.
func (s *Sandbox) Audit(_ context.Context, key string) (Audit, error) {
	a := Audit{ChargesByIdempotencyKey: map[string]int{}}
	err := s.db.tx(func(tx link) error {
		who, err := findAccount(tx, key)
		if err != nil {
			return err
		}
		p, err := readAccountState(tx, who.id)
		a.BalanceCents = p.balance
		return errors.Join(err, a.readEntries(tx, who.id), a.readGenerations(tx, who.id))
	})
	return a, err
}

func (a *Audit) readEntries(from link, account int64) error {
	return from.forEachRow(func(rows *sql.Rows) error {
		var e Entry
		var at int64
		err := rows.Scan(&e.Kind, &e.Cents, &e.BalanceCents, &e.GenerationID, &e.Note, &at)
		e.Time = toTime(at)
		a.add(e)
		return err
	}, `SELECT kind, cents, balance, COALESCE(public_id, ''), note, at FROM ledger
		LEFT JOIN generations ON generations.id = ledger.generation WHERE ledger.account = ? ORDER BY ledger.id`, account)
}

func (a *Audit) add(e Entry) {
	a.Entries = append(a.Entries, e)
	switch e.Kind {
	case kindTopUp:
		a.TopUpCents += e.Cents
	case kindCharge:
		a.ChargeCents -= e.Cents
	case kindRefund:
		a.RefundCents += e.Cents
	}
}

func (a *Audit) readGenerations(from link, account int64) error {
	return from.forEachRow(func(rows *sql.Rows) error {
		var g AuditedGeneration
		var created, finished, refunded int64
		err := rows.Scan(&g.ID, &g.IdempotencyKey, &g.Model, &g.Status, &created, &finished, &refunded,
			&g.CostCents, &g.Deleted, &g.Charges, &g.Refunds)
		g.CreatedAt, g.FinishedAt, g.RefundedAt = toTime(created), toTime(finished), toTime(refunded)
		a.Generations = append(a.Generations, g)
		if g.IdempotencyKey != "" {
			a.ChargesByIdempotencyKey[g.IdempotencyKey] += g.Charges
		}
		return err
	}, `SELECT public_id, COALESCE(idempotency_key, ''), model, state, created_at, COALESCE(finished_at, 0),
		COALESCE((SELECT MIN(at) FROM ledger WHERE generation = g.id AND kind = 'refund'), 0), cost, deleted_at IS NOT NULL,
		(SELECT COUNT(*) FROM ledger WHERE generation = g.id AND kind = 'charge'),
		(SELECT COUNT(*) FROM ledger WHERE generation = g.id AND kind = 'refund')
		FROM generations g WHERE account = ? ORDER BY id`, account)
}

// toTime converts Unix nanoseconds to a time. It converts 0 to the zero time.
func toTime(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

// Check returns an error that joins all violations of the following rules, or nil if there are no violations:
//
//   - The balance is top-ups − charges + refunds, and it was never negative.
//   - Each generation and each Idempotency-Key has exactly one charge.
//   - A generation has at most one refund, and only if its status is failed or refunded.
//   - A generation with the status refunded has exactly one refund.
func (a Audit) Check() error {
	var faults []error
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("sandbox: audit: "+format, args...))
		}
	}
	sum := int64(0)
	for i, e := range a.Entries {
		sum += e.Cents
		expect(e.BalanceCents == sum, "entry %d has the balance %d, but the sum is %d", i, e.BalanceCents, sum)
		expect(sum >= 0, "entry %d makes the balance negative: %d", i, sum)
	}
	expect(a.BalanceCents == a.TopUpCents-a.ChargeCents+a.RefundCents, "balance %d is not top-ups %d − charges %d + refunds %d",
		a.BalanceCents, a.TopUpCents, a.ChargeCents, a.RefundCents)
	expect(a.BalanceCents == sum, "balance %d is not the sum of entries %d", a.BalanceCents, sum)
	for _, g := range a.Generations {
		failed := g.Status == stateFailed || g.Status == stateRefunded
		expect(g.Charges == 1, "generation %s has %d charges", g.ID, g.Charges)
		expect(g.Refunds <= 1, "generation %s has %d refunds", g.ID, g.Refunds)
		expect(g.Refunds == 0 || failed, "generation %s is %s and has a refund", g.ID, g.Status)
		expect(g.Refunds == 1 || g.Status != stateRefunded, "generation %s is refunded without a refund", g.ID)
	}
	for key, n := range a.ChargesByIdempotencyKey {
		expect(n == 1, "idempotency key %q has %d charges", key, n)
	}
	return errors.Join(faults...)
}
