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
)

// KeyPrefix is the prefix of every API key that the sandbox makes.
const KeyPrefix = "sandbox_live_"

// ErrKeyExists says that an API key exists already.
var ErrKeyExists = errors.New("sandbox: the key exists already")

// ErrUnknownKey says that an API key does not exist.
var ErrUnknownKey = errors.New("sandbox: unknown key")

// KeyConfig describes a new API key. One API key is one account with one balance.
type KeyConfig struct {
	// Name is shown by GET /me. Empty means "sandbox".
	Name string `json:"name"`
	// BalanceCents is the first top-up. 0 means an empty account.
	BalanceCents int64 `json:"balanceCents"`
	// DailyCapCents limits the charges of one UTC day. 0 means the default of [Config], less than 0 no cap.
	DailyCapCents int64 `json:"dailyCapCents"`
	// Key is the API key: 8 to 200 visible ASCII characters. Empty means a random one.
	Key string `json:"key"`
}

// account is the owner of an API key, as the database has it.
type account struct {
	id       int64
	key      int64 // the API key
	name     string
	dailyCap int64
	revoked  bool
}

// CreateKey makes an account and returns its API key. The sandbox keeps only the hash of it.
func (s *Sandbox) CreateKey(_ context.Context, c KeyConfig) (string, error) {
	if c.BalanceCents < 0 {
		return "", errors.New("sandbox: BalanceCents must not be negative")
	}
	key, err := s.newKey(c.Key)
	if err != nil {
		return "", err
	}
	c.Name = cmp.Or(c.Name, "sandbox")
	dailyCap := max(cmp.Or(c.DailyCapCents, s.cfg.DailyCapCents), 0)
	return key, s.db.tx(func(tx link) error { return s.insertKey(tx, key, c, dailyCap) })
}

// newKey checks an API key, and makes a random one of "".
func (s *Sandbox) newKey(key string) (string, error) {
	if key == "" {
		key = KeyPrefix + s.random.token(32)
	}
	if !visible(key, 8, 200) {
		return "", errors.New("sandbox: a key has 8 to 200 visible ASCII characters")
	}
	return key, nil
}

func (s *Sandbox) insertKey(tx link, key string, c KeyConfig, dailyCap int64) error {
	_, err := findAccount(tx, key)
	if err == nil {
		return ErrKeyExists
	}
	if !errors.Is(err, ErrUnknownKey) {
		return err
	}
	res, err := tx.exec(`INSERT INTO accounts (name, daily_cap, created_at) VALUES (?, ?, ?)`,
		c.Name, dailyCap, s.cfg.Now().UnixNano())
	if err != nil {
		return err
	}
	id, err := res.LastInsertId()
	if err == nil {
		err = s.putKey(tx, id, key)
	}
	if err != nil || c.BalanceCents == 0 {
		return err
	}
	return s.addEntry(tx, id, kindTopUp, c.BalanceCents, 0, "first balance")
}

func (s *Sandbox) putKey(tx link, account int64, key string) error {
	_, err := tx.exec(`INSERT INTO api_keys (account, key_hash, created_at) VALUES (?, ?, ?)`,
		account, digest(key), s.cfg.Now().UnixNano())
	return err
}

// AddKey adds an API key to the account of another one, as before a rotation. Both work until one is
// revoked. An empty next means a random one. AddKey returns the new API key.
func (s *Sandbox) AddKey(_ context.Context, key, next string) (string, error) {
	next, err := s.newKey(next)
	if err != nil {
		return "", err
	}
	return next, s.change(key, func(tx link, who account) error {
		if _, err := findAccount(tx, next); !errors.Is(err, ErrUnknownKey) {
			return errors.Join(ErrKeyExists, err)
		}
		return s.putKey(tx, who.id, next)
	})
}

// RevokeKey makes every later request with the API key a 401. Its ledger stays; its generations go on.
func (s *Sandbox) RevokeKey(_ context.Context, key string) error {
	return s.change(key, func(tx link, who account) error {
		_, err := tx.exec(`UPDATE api_keys SET revoked_at = ? WHERE id = ?`, s.cfg.Now().UnixNano(), who.key)
		return err
	})
}

// TopUp adds cents to the balance of an API key.
func (s *Sandbox) TopUp(_ context.Context, key string, cents int64, note string) error {
	if cents <= 0 {
		return errors.New("sandbox: a top-up is at least one cent")
	}
	return s.change(key, func(tx link, who account) error {
		return s.addEntry(tx, who.id, kindTopUp, cents, 0, note)
	})
}

// change changes the account of an API key in one transaction.
func (s *Sandbox) change(key string, do func(tx link, who account) error) error {
	return s.db.tx(func(tx link) error {
		who, err := findAccount(tx, key)
		if err != nil {
			return err
		}
		return do(tx, who)
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

// authenticate finds the account of a request. It refuses missing, wrong and revoked API keys alike.
func (s *Sandbox) authenticate(r *http.Request) (account, error) {
	refused := &apiError{
		status: http.StatusUnauthorized, code: "UNAUTHORIZED",
		message: "The API key is missing, wrong or revoked.",
	}
	key := bearer(r)
	if key == "" {
		return account{}, refused
	}
	who, err := findAccount(s.db.read.link, key)
	if errors.Is(err, ErrUnknownKey) || err == nil && who.revoked {
		return account{}, refused
	}
	if err != nil {
		return account{}, fmt.Errorf("find key: %w", err)
	}
	return who, nil
}

// bearer is the credential of a request, or "".
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

// visible reports whether s has shortest to longest printable ASCII characters without blanks.
func visible(s string, shortest, longest int) bool {
	if len(s) < shortest || len(s) > longest {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
