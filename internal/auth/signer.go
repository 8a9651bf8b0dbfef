package auth

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// keysFileInterval and keysURLInterval are the times between two reads of keys from a file and from a URL.
	keysFileInterval, keysURLInterval = time.Second, 5 * time.Minute
	// keysRetryInterval is the time between two reads of a URL after a failure or after a token with an unknown key.
	keysRetryInterval = 10 * time.Second
	// keysTTL is the time for which keys stay valid after the last successful read.
	keysTTL = 24 * time.Hour
)

// signer is an issuer with its keys.
type signer struct {
	issuer Issuer
	logger *slog.Logger

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	begin    time.Time // start of the last read
	loadTime time.Time // start of the last read that succeeded
	wanted   bool      // a token had an unknown key since the last successful read
	problem  error
}

// edited returns the signer of an issuer after a change of the callers file. s is the previous signer, nil if the issuer is new.
// The keys are retained unless their file or URL has changed.
func (s *signer) edited(issuer Issuer, logger *slog.Logger) *signer {
	if s != nil && s.issuer == issuer {
		return s
	}
	next := &signer{issuer: issuer, logger: logger}
	if s != nil && s.issuer.KeysFile == issuer.KeysFile && s.issuer.KeysURL == issuer.KeysURL {
		s.mu.Lock()
		defer s.mu.Unlock()
		next.keys, next.loadTime = s.keys, s.loadTime
	}
	return next
}

// candidates returns the keys that may have made a signature. A token without a key ID is accepted only if the issuer has exactly
// one key of the algorithm.
func (s *signer) candidates(id, algorithm string, now time.Time) (keys []jose.JSONWebKey, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.loadTime.IsZero():
		return nil, errNoKeys
	case now.Sub(s.loadTime) > keysTTL:
		return nil, errOldKeys
	}
	for _, key := range s.keys {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || id == "" && len(keys) > 1 {
		s.wanted = true
		return nil, errUnknownKey
	}
	return keys, nil
}

func (s *signer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// isDue reports whether a read of the keys is due. If so, it records the start of the read, and the caller must call read.
func (s *signer) isDue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	interval := keysURLInterval
	switch {
	case s.issuer.KeysFile != "":
		interval = keysFileInterval
	case s.problem != nil || s.wanted:
		interval = keysRetryInterval
	}
	if !s.begin.IsZero() && now.Sub(s.begin) < interval {
		return false
	}
	s.begin = now
	return true
}

// read reads the keys. After a failure the old keys remain valid.
func (s *signer) read(ctx context.Context) {
	text, err := s.issuer.keySet(ctx)
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = parseKeys(text)
	}
	if ctx.Err() != nil {
		return // the process is stopping
	}
	before, problem := s.apply(keys, err)
	logger := s.logger.With("issuer", s.issuer.Name)
	switch {
	case err != nil && (problem == nil || problem.Error() != err.Error()):
		logger.Error("issuer keys unreadable", "error", err, "effect", "old keys stay valid for a day after the last successful read")
	case err == nil && !reflect.DeepEqual(keys, before):
		logger.Info("issuer keys changed", "keys", len(keys), "before", keyIDs(before), "after", keyIDs(keys))
	case err == nil && problem != nil:
		logger.Info("issuer keys readable")
	}
}

// apply stores the result of a read, and returns the previous keys and problem.
func (s *signer) apply(keys []jose.JSONWebKey, err error) (before []jose.JSONWebKey, problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, problem = s.keys, s.problem
	if err == nil {
		s.keys, s.loadTime, s.wanted = keys, s.begin, false
	}
	s.problem = err
	return before, problem
}

func keyIDs(keys []jose.JSONWebKey) (ids []string) {
	for _, key := range keys {
		ids = append(ids, key.KeyID)
	}
	return ids
}
