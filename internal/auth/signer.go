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
	// keysFileInterval and keysURLInterval are the times between two successful reads of keys.
	keysFileInterval, keysURLInterval = time.Second, 5 * time.Minute
	// keysRetryInterval is the time to the next read after a failure or a token with an unknown key.
	keysRetryInterval = 10 * time.Second
	// keysTTL is the time for which unreadable keys stay valid.
	keysTTL = 24 * time.Hour
)

// signer is an issuer with its keys.
type signer struct {
	issuer Issuer
	logger *slog.Logger
	tried  chan struct{} // closed after the first read
	first  sync.Once     // closes tried

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	begin    time.Time // start of the last read
	loadTime time.Time // start of the last read that succeeded
	reading  bool
	wanted   bool // a token has an unknown key
	problem  error
}

// edited returns the signer for the current members of an issuer. s is nil if the issuer is new.
func (s *signer) edited(issuer Issuer, logger *slog.Logger) *signer {
	if s != nil && s.issuer == issuer {
		return s
	}
	next := &signer{issuer: issuer, logger: logger, tried: make(chan struct{})}
	if s != nil && s.issuer.KeysFile == issuer.KeysFile && s.issuer.KeysURL == issuer.KeysURL {
		s.mu.Lock()
		defer s.mu.Unlock()
		next.keys, next.loadTime = s.keys, s.loadTime
	}
	return next
}

// candidates returns the keys that a signature may be of. A token without a key ID needs an issuer with one key of its algorithm.
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

// isDue reports whether the caller must read the keys now.
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
	if s.reading || !s.begin.IsZero() && now.Sub(s.begin) < interval {
		return false
	}
	s.reading, s.begin = true, now
	return true
}

// read reads the keys. The old keys stay if it fails.
func (s *signer) read(ctx context.Context) {
	text, err := s.issuer.keySet(ctx)
	var keys []jose.JSONWebKey
	if err == nil {
		keys, _, err = parseKeys(text)
	}
	if ctx.Err() != nil {
		return // the process stops
	}
	before, problem := s.apply(keys, err)
	s.first.Do(func() { close(s.tried) })
	logger := s.logger.With("issuer", s.issuer.Name)
	switch {
	case err != nil && (problem == nil || problem.Error() != err.Error()):
		logger.Error("issuer keys unreadable", "error", err, "effect", "the old keys stay valid for a day")
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
	s.reading, s.problem = false, err
	return before, problem
}

func keyIDs(keys []jose.JSONWebKey) (ids []string) {
	for _, key := range keys {
		ids = append(ids, key.KeyID)
	}
	return ids
}
