package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/shared"
)

// reportHolds is how long a process counts as there after a report.
const reportHolds = 3 * time.Second

// Exchange tells others the report of a process under an API key, unless it is "", and gives theirs.
func (p *Polls) Exchange(ctx context.Context, apiKey, replica, report string) (others shared.Others, err error) {
	read := func(tx *transaction) error {
		others, err = tx.others(apiKey, replica)
		return err
	}
	if report == "" {
		return others, p.Ledger.reading(ctx, read)
	}
	err = p.Ledger.inTransaction(inTurn(ctx, forOrder, apiKey), func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO shared_reports (api_key, replica, told_time, report) VALUES ($1, $2, {now}, $3)
			ON CONFLICT (api_key, replica) DO UPDATE SET told_time = excluded.told_time, report = excluded.report`, apiKey, replica, report); err != nil {
			return err
		}
		return read(tx)
	})
	return others, err
}

// others reads what others have told. What was told before the clock was set back is told again soon.
func (t *transaction) others(apiKey, replica string) (others shared.Others, err error) {
	k, err := t.readKey(apiKey, "")
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return others, err
	}
	others = shared.Others{Paused: max(0, time.Duration(k.PausedUntil-k.Now)*time.Microsecond), Reports: map[string]string{}}
	all, err := collect(t, func(row scanner, one *[2]string) error { return row.Scan(&one[0], &one[1]) },
		`SELECT replica, report FROM shared_reports WHERE api_key = $1 AND replica <> $2 AND told_time BETWEEN {now} - $3 AND {now}`, apiKey, replica, reportHolds.Microseconds())
	for _, one := range all {
		others.Reports[one[0]] = one[1]
	}
	return others, err
}
