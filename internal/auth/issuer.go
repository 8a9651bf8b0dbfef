package auth

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// keysFileInterval and keysURLInterval are the intervals at which keys are read from a file and from a URL.
	keysFileInterval, keysURLInterval = time.Second, 5 * time.Minute
	// keysRetryInterval replaces keysURLInterval if the last read has failed, or if a token with an unknown key has arrived
	// since the last read started.
	keysRetryInterval = 10 * time.Second
	// keysTTL is the time for which keys stay valid after the last successful read.
	keysTTL = 24 * time.Hour
)

// Issuer is an identity provider whose tokens (JWT) authenticate callers.
type Issuer struct {
	// Name must equal the iss claim of a token. Audience must be one of the values in its aud claim.
	Name     string `yaml:"issuer"`
	Audience string
	// KeysFile or KeysURL is the location of the public keys, a JSON Web Key Set.
	KeysFile string `yaml:"jwks_file"`
	KeysURL  string `yaml:"jwks_url"`
	// CAFile is the file with the CAs for KeysURL. Empty means the system's CAs.
	CAFile string `yaml:"ca_file"`
	// TokenFile is the file with the bearer token for requests to KeysURL. Empty means no token.
	TokenFile string `yaml:"token_file"`

	keys *keys
}

// keys holds the current keys of an issuer. The keys are retained when the callers file changes, unless the change affects
// the issuer's key file or URL.
type keys struct {
	begin  time.Time   // time when the last read started; only [Callers.ReadKeys] uses it
	wanted atomic.Bool // whether a token with an unknown key has arrived since the last read of the keys started
	known  atomic.Pointer[knownKeys]
}

// knownKeys is the state of an issuer's keys after a read.
type knownKeys struct {
	set     []jose.JSONWebKey // keys from the last successful read
	time    time.Time         // start of the last successful read of the keys
	problem error             // error from the last read of the keys; nil if the read succeeded
}

// keepKeys copies the keys from an older list, except for issuers whose file or URL has changed.
func (l *List) keepKeys(older *List) {
	for name, issuer := range l.Issuers {
		if old := older.Issuers[name]; old != nil && old.KeysFile == issuer.KeysFile && old.KeysURL == issuer.KeysURL {
			issuer.keys = old.keys
		}
	}
}

// FollowKeys reads the keys of all issuers at regular intervals until ctx is done.
func (c *Callers) FollowKeys(ctx context.Context) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		c.ReadKeys(ctx)
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// ReadKeys reads the keys of each issuer whose interval has passed since its last read, and waits for these reads. It must
// not be called concurrently.
func (c *Callers) ReadKeys(ctx context.Context) {
	var reads sync.WaitGroup
	for name, issuer := range c.List().Issuers {
		if now := time.Now(); now.Sub(issuer.keys.begin) >= issuer.interval() {
			issuer.keys.begin = now
			issuer.keys.wanted.Store(false)
			reads.Go(func() { issuer.refreshKeys(ctx, c.logger.With("issuer", name)) })
		}
	}
	reads.Wait()
}

// KeyProblems returns the errors of the issuers whose last key read failed, keyed by issuer name.
func (c *Callers) KeyProblems() map[string]error {
	all := map[string]error{}
	for name, issuer := range c.List().Issuers {
		if problem := issuer.keys.known.Load().problem; problem != nil {
			all[name] = problem
		}
	}
	return all
}

// interval returns the minimum time between the starts of two reads of the issuer's keys.
func (i *Issuer) interval() time.Duration {
	switch {
	case i.KeysFile != "":
		return keysFileInterval
	case i.keys.wanted.Load() || i.keys.known.Load().problem != nil:
		return keysRetryInterval
	}
	return keysURLInterval
}

// refreshKeys reads the keys and logs changes and new errors. After a failure, the old keys stay valid until [keysTTL] has
// passed since the last successful read.
func (i *Issuer) refreshKeys(ctx context.Context, logger *slog.Logger) {
	set, err := i.readKeys(ctx)
	if ctx.Err() != nil {
		return // the process is stopping
	}
	before, next := i.keys.known.Load(), &knownKeys{set: set, time: i.keys.begin}
	if err != nil {
		next = &knownKeys{before.set, before.time, err}
	}
	i.keys.known.Store(next)
	switch {
	case err != nil && fmt.Sprint(err) != fmt.Sprint(before.problem):
		logger.Error("issuer keys unreadable", "error", err, "effect", "old keys stay valid for a day after the last successful read")
	case err == nil && !reflect.DeepEqual(set, before.set):
		logger.Info("issuer keys changed", "keys", len(set), "before", keyIDs(before.set), "after", keyIDs(set))
	case err == nil && before.problem != nil:
		logger.Info("issuer keys readable")
	}
}

func keyIDs(set []jose.JSONWebKey) (ids []string) {
	for _, key := range set {
		ids = append(ids, key.KeyID)
	}
	return ids
}

// candidateKeys returns the keys that could have signed a token with this header. A token without a key ID is accepted only if
// exactly one key of the issuer fits its algorithm.
func (i *Issuer) candidateKeys(header jose.Header, now time.Time) (candidates []jose.JSONWebKey, err error) {
	known := i.keys.known.Load()
	switch {
	case known.time.IsZero():
		return nil, errNoKeys
	case now.Sub(known.time) > keysTTL:
		return nil, errOldKeys
	}
	for _, key := range known.set {
		if (header.KeyID == "" || key.KeyID == header.KeyID) && (key.Algorithm == "" || key.Algorithm == header.Algorithm) {
			candidates = append(candidates, key)
		}
	}
	if len(candidates) == 0 || header.KeyID == "" && len(candidates) > 1 {
		i.keys.wanted.Store(true)
		return nil, errUnknownKey
	}
	return candidates, nil
}
