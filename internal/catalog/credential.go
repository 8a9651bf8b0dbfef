package catalog

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is a key. It prints as [redacted] by every verb, encoder and log. The text is
// behind a pointer because %p prints what a struct holds without asking it.
type Secret struct{ text *string }

// NewSecret wraps the text of a key.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal gives the key itself. The only callers are those that put it on the wire.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal reports whether two secrets are the same key. It takes the same time for every
// pair of keys of one length. Secrets can't be compared by ==.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String hides the key.
func (s Secret) String() string { return redacted }

// Format hides the key from every verb, %#v too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText hides the key from JSON, XML and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the key from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Tenant names a credential without telling it: a keyed hash, good as a map key and
// in logs. All that calls share is kept by tenant.
type Tenant string

// Fingerprint is short enough to be read out: the first eight digits, or "held". It tells
// the keys of one process apart.
func (t Tenant) Fingerprint() string { return string(t[:min(len(t), 8)]) }

// tenantKey makes tenants of this process unguessable from outside.
var tenantKey = func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails, by its documentation
	return key
}()

// Credential is the key that a call runs under.
type Credential struct {
	Tenant Tenant
	Held   bool // the key is our operator's, and a rejection is not the caller's fault
	// Owner is whom a call under a held API key belongs to: "" for all anonymous callers together, and for polls.
	Owner string
	key   func() Secret
}

// Forwarded is the credential of a caller that sent its own key.
func Forwarded(key Secret) Credential {
	mac := hmac.New(sha256.New, tenantKey)
	mac.Write([]byte(key.Reveal()))
	return Credential{
		Tenant: Tenant(hex.EncodeToString(mac.Sum(nil)[:16])),
		key:    func() Secret { return key },
	}
}

// Held is the credential of a server that has a key of its own. key gives the newest
// one; the tenant stays the same when it is rotated.
func Held(key func() Secret) Credential {
	return Credential{Tenant: "held", Held: true, key: key}
}

// Key gives the key to send now.
func (c Credential) Key() Secret {
	if c.key == nil {
		return Secret{}
	}
	return c.key()
}

// pinned is the credential with the key of now, whatever key is the newest later.
func (c Credential) pinned() Credential {
	key := c.Key()
	c.key = func() Secret { return key }
	return c
}
