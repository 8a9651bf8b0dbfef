package sandbox

import (
	"database/sql"
	"errors"
	"net/http"
)

const (
	kindTopUp  = "top_up"
	kindCharge = "charge"
	kindRefund = "refund"
)

// purse is what the newest ledger entry of an account says.
type purse struct {
	balance    int64
	day        string
	dayCharges int64
}

func readPurse(from link, account int64) (purse, error) {
	var p purse
	err := from.queryRow(`SELECT balance, day, day_charges FROM ledger WHERE account = ? ORDER BY id DESC LIMIT 1`,
		account).Scan(&p.balance, &p.day, &p.dayCharges)
	if errors.Is(err, sql.ErrNoRows) {
		return purse{}, nil
	}
	return p, err
}

// today is the calendar day of the daily cap, in UTC.
func (s *Sandbox) today() string { return s.cfg.Now().UTC().Format("2006-01-02") }

// spentToday is the sum of the charges of the current day. Refunds do not lower it.
func (s *Sandbox) spentToday(p purse) int64 {
	if p.day != s.today() {
		return 0
	}
	return p.dayCharges
}

// charge takes the price of a new generation from the balance, or refuses.
func (s *Sandbox) charge(tx link, who account, g generation) error {
	if err := s.mayCharge(tx, who, g.cost); err != nil {
		return err
	}
	return s.book(tx, who.id, kindCharge, -g.cost, g.id, "render")
}

// mayCharge refuses a price that the balance or the daily cap has no room for.
func (s *Sandbox) mayCharge(tx link, who account, cents int64) error {
	p, err := readPurse(tx, who.id)
	if err != nil {
		return err
	}
	if p.balance < cents {
		return &apiError{
			status: http.StatusPaymentRequired, code: "INSUFFICIENT_BALANCE",
			message: "The balance is not enough for this render.",
		}
	}
	if who.dailyCap > 0 && s.spentToday(p)+cents > who.dailyCap {
		return &apiError{
			status: http.StatusConflict, code: "API_KEY_DAILY_CAP",
			message: "The daily cap of this API key has been reached.",
		}
	}
	return nil
}

// refund gives the price back. The schema refuses a second one.
func (s *Sandbox) refund(tx link, g generation) error {
	return s.book(tx, g.account, kindRefund, g.cost, g.id, "failed render")
}

// book appends one entry. generation is 0 for a top-up.
func (s *Sandbox) book(tx link, account int64, kind string, cents, generation int64, note string) error {
	p, err := readPurse(tx, account)
	if err != nil {
		return err
	}
	dayCharges := s.spentToday(p)
	if kind == kindCharge {
		dayCharges -= cents
	}
	_, err = tx.exec(`INSERT INTO ledger (account, kind, cents, balance, day, day_charges, generation, note, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		account, kind, cents, p.balance+cents, s.today(), dayCharges,
		sql.NullInt64{Int64: generation, Valid: generation != 0}, note, s.cfg.Now().UnixNano())
	return err
}
