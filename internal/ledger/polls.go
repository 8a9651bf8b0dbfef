package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/shared"
)

// replicaSeen is how long a replica counts as there after a claim.
const replicaSeen = time.Minute

// PollsConfig says how polls are shared.
type PollsConfig struct {
	// Ledger is the book, which several processes use.
	Ledger *Ledger
	// Listen calls heard with the API keys of which something has changed, and with "" where it may have missed some,
	// until it fails. Nil is LISTEN of PostgreSQL, and nothing elsewhere.
	Listen func(ctx context.Context, heard func(apiKey string)) error
	// Logger is told once that notifications do not come, and that they do again. Nil discards.
	Logger *slog.Logger
}

// Polls are the polls that processes share, each of which has claimed them in the book first. The row of an API key is
// locked before its states in every transaction but that which forgets states, and that one waits for nobody: so versions
// are committed in order, and no two processes wait for each other.
type Polls struct {
	PollsConfig

	listeners Notifier[string] // by API key
}

// NewPolls shares the polls of a book. They are told of changes while [Polls.Run] runs.
func NewPolls(c PollsConfig) *Polls {
	if c.Listen == nil && c.Ledger.IsShared() {
		c.Listen = c.Ledger.listen
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Polls{PollsConfig: c}
}

// sharedKey is the row of an API key.
type sharedKey struct {
	shared.Key
	tokens   float64
	owed     float64
	filled   int64
	replicas map[string]seenReplica
}

// seenReplica is a process that has claimed polls.
type seenReplica struct {
	At         int64 `json:"at"`
	Everything bool  `json:"everything,omitempty"`
}

// readSharedKey reads the clock after it has the lock.
const readSharedKey = `WITH k AS (SELECT * FROM shared_keys WHERE api_key = $1 %s)
	SELECT {now}, born, version, swept_time, seen_time, paused_until, full_list = 1, tokens, owed, filled_time, replicas FROM k`

// readKey reads the row of an API key.
func (t *transaction) readKey(apiKey, lock string) (k sharedKey, err error) {
	replicas := ""
	if err := t.row(fmt.Sprintf(readSharedKey, lock), apiKey).Scan(&k.Now, &k.Born, &k.Version, &k.Swept, &k.Seen, &k.PausedUntil, &k.FullList, &k.tokens, &k.owed, &k.filled, &replicas); err != nil {
		return k, err
	}
	k.PausedUntil = min(k.PausedUntil, k.Now+shared.PauseMicros) // a clock that was set back makes it no longer
	if json.Unmarshal([]byte(replicas), &k.replicas) != nil || k.replicas == nil {
		k.replicas = map[string]seenReplica{}
	}
	k.count()
	return k, nil
}

// count counts the replicas that were seen within the last minute. Of those that were seen before the clock was set back,
// whoever is there claims again.
func (k *sharedKey) count() {
	maps.DeleteFunc(k.replicas, func(_ string, r seenReplica) bool { return r.At <= k.Now-replicaSeen.Microseconds() || r.At > k.Now })
	k.Replicas, k.Everything = len(k.replicas), false
	for _, r := range k.replicas {
		k.Everything = k.Everything || r.Everything
	}
}

// lockKey locks the row of an API key. Where there is none, it makes one whose rate allows one request.
func (t *transaction) lockKey(apiKey string) (k sharedKey, err error) {
	k, err = t.readKey(apiKey, "{lock}")
	if !errors.Is(err, sql.ErrNoRows) {
		return k, err
	}
	now, err := t.now()
	if err != nil {
		return k, err
	}
	if _, err := t.exec(`INSERT INTO shared_keys (api_key, born, version, tokens, filled_time) VALUES ($1, $2, $2, 1, $2) ON CONFLICT (api_key) DO NOTHING`, apiKey, micros(now)); err != nil {
		return k, err
	}
	return t.readKey(apiKey, "{lock}")
}

// fill adds what the rate has allowed since the last claim. What calls have spent, at most the requests of one second,
// takes three quarters of that: a quarter is reserved for polls.
func (k *sharedKey) fill(ask shared.Ask) {
	from := max(k.filled, min(k.PausedUntil, k.Now))
	added := float64(max(k.Now-from, 0)) / 1e6 * ask.Rate
	k.owed = min(k.owed+float64(ask.Spent), ask.Rate)
	paid := min(k.owed, added*3/4)
	k.owed, k.tokens, k.filled = k.owed-paid, min(k.tokens+added-paid, max(2, ask.Rate)), k.Now
	if k.PausedUntil > k.Now {
		k.tokens = min(k.tokens, 1) // no burst at the end of a pause
	}
}

// maySweep reports whether a sweep is granted, as far as others have claimed it. Where a time lies in the future the
// clock was set back: what it says of the last claim and its answer is not known, and a claim holds for its time.
func (k *sharedKey) maySweep(ask shared.Ask) bool {
	answered := k.Seen >= k.Swept && max(k.Seen, ask.LastSweep) <= k.Now
	return ask.Sweep && k.Swept <= ask.LastSweep && (answered || k.Swept <= k.Now-shared.HoldMicros || k.Swept > k.Now)
}

// again is when there is another token, or the pause is over.
func (k *sharedKey) again(rate float64) int64 {
	return max(k.PausedUntil, k.Now+int64(math.Ceil(max(1-k.tokens, 0)/rate*1e6)))
}

// Claim claims polls under an API key, which is named by its SHA-256 in hex.
func (p *Polls) Claim(ctx context.Context, apiKey string, ask shared.Ask) (claim shared.Claim, err error) {
	err = p.Ledger.inTransaction(inTurn(ctx, forRead, apiKey), func(tx *transaction) error {
		k, err := tx.lockKey(apiKey)
		if err != nil {
			return err
		}
		k.fill(ask)
		claim = shared.Claim{}
		if paused := k.PausedUntil > k.Now; !paused && k.maySweep(ask) && k.tokens >= 1 {
			claim.Sweep, k.Swept = true, k.Now
			k.tokens--
		} else if paused || k.maySweep(ask) {
			claim.Again = k.again(ask.Rate)
		}
		if claim.Reads, err = k.claimReads(tx, apiKey, ask.Reads); err != nil {
			return err
		}
		if k.tokens -= float64(len(claim.Reads)); k.tokens < 1 && len(claim.Reads) < len(ask.Reads) {
			claim.Again = k.again(ask.Rate)
		}
		k.replicas[ask.Replica] = seenReplica{k.Now, ask.Everything}
		k.count()
		claim.Key = k.Key
		return k.write(tx, apiKey)
	})
	return claim, err
}

// claimReads claims as many of the reads as the rate allows, by the rules of [sharedKey.maySweep].
func (k *sharedKey) claimReads(tx *transaction, apiKey string, reads []shared.Read) (granted map[string]bool, err error) {
	granted = map[string]bool{}
	if reads = reads[:min(len(reads), int(k.tokens))]; len(reads) == 0 || k.PausedUntil > k.Now {
		return granted, nil
	}
	ids, err := collect(tx, scanText, `INSERT INTO shared_states (api_key, id, claimed_time, seen_time) SELECT $1, r.id, $3, r.last FROM {rows} WHERE TRUE
		ON CONFLICT (api_key, id) DO UPDATE SET claimed_time = excluded.claimed_time
		WHERE shared_states.claimed_time <= excluded.seen_time AND (shared_states.seen_time >= shared_states.claimed_time AND shared_states.seen_time <= $3 AND excluded.seen_time <= $3
			OR shared_states.claimed_time <= $4 OR shared_states.claimed_time > $3)
		RETURNING id`, apiKey, asList(reads), k.Now, k.Now-shared.HoldMicros)
	for _, id := range ids {
		granted[id] = true
	}
	return granted, err
}

// write writes the row after a claim.
func (k *sharedKey) write(tx *transaction, apiKey string) error {
	text, err := json.Marshal(k.replicas)
	if err != nil {
		return err
	}
	_, err = tx.exec(`UPDATE shared_keys SET swept_time = $1, paused_until = $2, tokens = $3, owed = $4, filled_time = $5, replicas = $6 WHERE api_key = $7`, k.Swept, k.PausedUntil, k.tokens, k.owed, k.filled, string(text), apiKey)
	return err
}
