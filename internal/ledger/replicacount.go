package ledger

import (
	"context"
	"time"
)

// replicaTTL is the time after which a replica counts as stopped if its row was not renewed.
const replicaTTL = 30 * time.Second

const (
	renewReplica  = `INSERT INTO replicas (id, seen_time) VALUES ($1, {now}) ON CONFLICT (id) DO UPDATE SET seen_time = excluded.seen_time`
	removeReplica = `DELETE FROM replicas WHERE id = $1`
	countReplicas = `SELECT COUNT(*) FROM replicas`
)

var removeStopped = `DELETE FROM replicas WHERE ` + pastCondition("seen_time + "+micro(replicaTTL), micro(replicaTTL))

// Attend records whether a replica polls the catalog: it renews the row of a polling replica, and removes the row of any other.
// It returns the number of replicas that poll the catalog.
func (l *Ledger) Attend(ctx context.Context, replica string, polls bool) (replicas int, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		own := removeReplica
		if polls {
			own = renewReplica
		}
		if _, err := tx.exec(own, replica); err != nil {
			return err
		}
		if _, err := tx.exec(removeStopped); err != nil {
			return err
		}
		return tx.scanRow([]any{&replicas}, countReplicas)
	})
	return replicas, err
}
