package main

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// trusted is what decides beside the callers file who may call, and under what: the authorities of client certificates, and
// the API key that a server holds. Their files are read again, and the audit has what comes into force, by fingerprints.
type trusted struct {
	lines *lateAudit

	mu          sync.Mutex
	apiKey      string
	authorities []string // names; nil: none are asked for
}

// trust is what the audit has of it.
type trust struct {
	APIKey      string       `json:"api_key,omitempty"` // its fingerprint
	Authorities *authorities `json:"client_authorities,omitempty"`
	Since       *time.Time   `json:"since,omitempty"` // when it came into force
}

// authorities are those of client certificates.
type authorities struct {
	Names  []string `json:"names"` // subjects and digests, the first of them
	Count  int      `json:"count"`
	Digest string   `json:"digest"` // of all names
}

func authoritiesOf(names []string) *authorities {
	if names == nil {
		return nil
	}
	digest := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return &authorities{Names: names[:min(len(names), mostNamed)], Count: len(names), Digest: "sha256:" + hex.EncodeToString(digest[:])}
}

// fingerprintOf tells API keys apart, in every process.
func fingerprintOf(key catalog.Secret) string {
	return "sha256:" + catalog.Forwarded(key).APIKeySum()[:16]
}

// takeAPIKey takes over an API key of a file that comes into force.
func (t *trusted) takeAPIKey(file string, key catalog.Secret) {
	next := fingerprintOf(key)
	t.mu.Lock()
	before := t.apiKey
	t.apiKey = next
	t.mu.Unlock()
	if before != "" && before != next { // the line of the start has the first
		t.put(ledger.ActAPIKey, "API key file", file, trust{APIKey: before}, trust{APIKey: next})
	}
}

// takeAuthorities takes over the authorities of a file that come into force.
func (t *trusted) takeAuthorities(file string, next []string) {
	t.mu.Lock()
	before := t.authorities
	t.authorities = next
	t.mu.Unlock()
	if before != nil && !slices.Equal(before, next) {
		t.put(ledger.ActAuthorities, "client CA file", file, trust{Authorities: authoritiesOf(before)}, trust{Authorities: authoritiesOf(next)})
	}
}

// put has the line of a change written.
func (t *trusted) put(action ledger.Action, actor, file string, before, after trust) {
	t.lines.put(string(action), before, after, func(c change) ledger.Act {
		became := c.after.(trust) //nolint:forcetypeassert // put above
		became.Since = &c.since
		return ledger.Act{By: ledger.By{Actor: actor, Origin: file}, Action: action, Subject: thisHost(), Was: c.before, Became: became}
	})
}

// now is what is in force.
func (t *trusted) now() trust {
	t.mu.Lock()
	defer t.mu.Unlock()
	return trust{APIKey: t.apiKey, Authorities: authoritiesOf(t.authorities)}
}
