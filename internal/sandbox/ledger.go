package sandbox

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"
)

const (
	kindTopUp  = "top_up"
	kindCharge = "charge"
	kindRefund = "refund"
)

// accountState is the state of an account after its last ledger entry.
type accountState struct {
	balance    int64
	day        string
	dayCharges int64
}

func readAccountState(from link, account int64) (accountState, error) {
	var a accountState
	err := from.queryRow(`SELECT balance, day, day_charges FROM ledger WHERE account = ? ORDER BY id DESC LIMIT 1`,
		account).Scan(&a.balance, &a.day, &a.dayCharges)
	if errors.Is(err, sql.ErrNoRows) {
		return accountState{}, nil
	}
	return a, err
}

// currentDate returns the current UTC date, for the daily cap.
func (s *Sandbox) currentDate() string { return time.Now().UTC().Format("2006-01-02") }

// spentToday returns the sum of the current day's charges. Refunds do not reduce the sum.
func (s *Sandbox) spentToday(a accountState) int64 {
	if a.day != s.currentDate() {
		return 0
	}
	return a.dayCharges
}

// charge deducts the price of a new generation from the account's balance. It returns an error if the price exceeds the
// balance or the unused part of the daily cap.
func (s *Sandbox) charge(tx link, who account, g generation) error {
	if err := s.checkCharge(tx, who, g.cost); err != nil {
		return err
	}
	return s.addEntry(tx, who.id, kindCharge, -g.cost, g.id, "render")
}

// checkCharge returns an error if a price exceeds the balance or the unused part of the daily cap.
func (s *Sandbox) checkCharge(tx link, who account, cents int64) error {
	a, err := readAccountState(tx, who.id)
	if err != nil {
		return err
	}
	if a.balance < cents {
		return &apiError{
			status: http.StatusPaymentRequired, code: "INSUFFICIENT_BALANCE",
			message: "The balance is not enough for this render.",
		}
	}
	if who.dailyCap > 0 && s.spentToday(a)+cents > who.dailyCap {
		return &apiError{
			status: http.StatusConflict, code: "API_KEY_DAILY_CAP",
			message: "The daily cap of this API key has been reached.",
		}
	}
	return nil
}

// refund books the refund of a generation's price. The database schema rejects a second refund.
func (s *Sandbox) refund(tx link, g generation) error {
	return s.addEntry(tx, g.account, kindRefund, g.cost, g.id, "failed render")
}

// Refund refunds a generation whose status is "succeeded" or "failed", and changes the status to "refunded". It does nothing
// if the status is "queued" or "refunded".
func (s *Sandbox) Refund(_ context.Context, key, generation string) error {
	return s.changeAccount(key, func(tx link, who account) error {
		g, err := findGeneration(tx, who.id, generation)
		if err != nil {
			return err
		}
		changed, err := tx.update(`UPDATE generations SET state = 'refunded', due_at = NULL WHERE id = ? AND state IN ('succeeded', 'failed')`, g.id)
		if err != nil || !changed {
			return err
		}
		return s.refund(tx, g)
	})
}

// addEntry appends an entry to an account's ledger. generation is the row ID of the generation, or 0 for a top-up.
func (s *Sandbox) addEntry(tx link, account int64, kind string, cents, generation int64, note string) error {
	a, err := readAccountState(tx, account)
	if err != nil {
		return err
	}
	dayCharges := s.spentToday(a)
	if kind == kindCharge {
		dayCharges -= cents
	}
	_, err = tx.exec(`INSERT INTO ledger (account, kind, cents, balance, day, day_charges, generation, note, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		account, kind, cents, a.balance+cents, s.currentDate(), dayCharges,
		sql.NullInt64{Int64: generation, Valid: generation != 0}, note, time.Now().UnixNano())
	return err
}
