package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// KeyPrefix is the prefix of every API key that the sandbox generates.
const KeyPrefix = "sandbox_live_"

var (
	// ErrKeyExists means that the API key already exists.
	ErrKeyExists error = &apiError{status: http.StatusConflict, code: "KEY_EXISTS", message: "The key exists already.", field: "key"}
	// ErrUnknownKey means that the API key does not exist.
	ErrUnknownKey error = &apiError{status: http.StatusNotFound, code: "UNKNOWN_KEY", message: "There is no such key.", field: "key"}
)

// KeyConfig describes a new API key and its account.
type KeyConfig struct {
	// Name is the account's name in GET /me. Empty means "sandbox".
	Name string `json:"name"`
	// BalanceCents is the initial balance, which is booked as a top-up. Zero means that there is no top-up.
	BalanceCents int64 `json:"balanceCents"`
	// DailyCapCents is the maximum sum of the charges in a UTC day. Zero means Config.DailyCapCents. A negative value means no
	// cap.
	DailyCapCents int64 `json:"dailyCapCents"`
	// Key is the API key: 8 to 200 visible ASCII characters. Empty means a random API key.
	Key string `json:"key"`
}

// account describes an account and the API key by which it was found.
type account struct {
	id       int64
	key      int64 // row ID of the API key
	name     string
	dailyCap int64
	revoked  bool
}

// CreateKey creates an account and returns its API key. The sandbox stores only a hash of the API key.
func (s *Sandbox) CreateKey(_ context.Context, c KeyConfig) (string, error) {
	if c.BalanceCents < 0 {
		return "", invalid("balanceCents", "must not be negative")
	}
	key := cmp.Or(c.Key, s.randomKey())
	dailyCap := max(cmp.Or(c.DailyCapCents, s.cfg.DailyCapCents), 0)
	return key, s.db.tx(func(tx link) error {
		res, err := tx.exec(`INSERT INTO accounts (name, daily_cap, created_at) VALUES (?, ?, ?)`,
			cmp.Or(c.Name, "sandbox"), dailyCap, time.Now().UnixNano())
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		if err == nil {
			err = insertKey(tx, id, key)
		}
		if err != nil || c.BalanceCents == 0 {
			return err
		}
		return s.addEntry(tx, id, kindTopUp, c.BalanceCents, 0, "first balance")
	})
}

func (s *Sandbox) randomKey() string { return KeyPrefix + s.random.token(32) }

// insertKey adds an API key to an account.
func insertKey(tx link, account int64, key string) error {
	if !isVisible(key, 8, 200) {
		return invalid("key", "must have 8 to 200 visible ASCII characters")
	}
	if _, err := findAccount(tx, key); !errors.Is(err, ErrUnknownKey) {
		return cmp.Or(err, ErrKeyExists)
	}
	_, err := tx.exec(`INSERT INTO api_keys (account, key_hash, created_at) VALUES (?, ?, ?)`, account, digest(key), time.Now().UnixNano())
	return err
}

// AddKey adds another API key to an account, for example to rotate keys, and returns it. key is an existing API key of the
// account. newKey is the new API key; empty means a random one. Each API key remains valid until it is revoked.
func (s *Sandbox) AddKey(_ context.Context, key, newKey string) (string, error) {
	newKey = cmp.Or(newKey, s.randomKey())
	return newKey, s.changeAccount(key, func(tx link, who account) error { return insertKey(tx, who.id, newKey) })
}

// RevokeKey revokes an API key. Later requests with it are rejected with 401. The account keeps its ledger, and its generations
// continue.
func (s *Sandbox) RevokeKey(_ context.Context, key string) error {
	return s.changeAccount(key, func(tx link, who account) error {
		_, err := tx.exec(`UPDATE api_keys SET revoked_at = ? WHERE id = ?`, time.Now().UnixNano(), who.key)
		return err
	})
}

// TopUp adds cents to the balance of an API key's account. The note is recorded in the account's ledger.
func (s *Sandbox) TopUp(_ context.Context, key string, cents int64, note string) error {
	if cents <= 0 {
		return invalid("cents", "must be at least 1")
	}
	return s.changeAccount(key, func(tx link, who account) error {
		return s.addEntry(tx, who.id, kindTopUp, cents, 0, note)
	})
}

// changeAccount calls fn with the account of an API key. The account is looked up in the same transaction.
func (s *Sandbox) changeAccount(key string, fn func(tx link, who account) error) error {
	return s.db.tx(func(tx link) error {
		who, err := findAccount(tx, key)
		if err != nil {
			return err
		}
		return fn(tx, who)
	})
}

func findAccount(from link, key string) (account, error) {
	var who account
	err := from.queryRow(`SELECT accounts.id, api_keys.id, name, daily_cap, revoked_at IS NOT NULL
		FROM api_keys JOIN accounts ON accounts.id = account WHERE key_hash = ?`,
		digest(key)).Scan(&who.id, &who.key, &who.name, &who.dailyCap, &who.revoked)
	if errors.Is(err, sql.ErrNoRows) {
		return account{}, ErrUnknownKey
	}
	return who, err
}

// authenticate returns the account to which the API key of a request belongs. It returns the same error for missing, wrong and
// revoked API keys.
func (s *Sandbox) authenticate(r *http.Request) (account, error) {
	who, err := findAccount(s.db.link, bearer(r))
	if errors.Is(err, ErrUnknownKey) || err == nil && who.revoked {
		return account{}, &apiError{
			status: http.StatusUnauthorized, code: "UNAUTHORIZED", message: "The API key is missing, wrong or revoked.",
		}
	}
	if err != nil {
		return account{}, fmt.Errorf("find key: %w", err)
	}
	return who, nil
}

// bearer returns the bearer token in a request's Authorization header, or "" if there is no bearer token.
func bearer(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

func digest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// isVisible reports whether a string consists of minLength to maxLength visible ASCII characters.
func isVisible(s string, minLength, maxLength int) bool {
	if len(s) < minLength || len(s) > maxLength {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
