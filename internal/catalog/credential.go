package catalog

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

const redacted = "[redacted]"

// Secret is an API key. Every format verb, encoder and logger prints it as [redacted]. The text is behind a pointer, because for
// the verb %p, package fmt prints the fields of a struct without calling its Format method.
type Secret struct{ text *string }

// NewSecret wraps the text of an API key.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text of the API key. Call it only to send the key or to derive a value from it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal reports whether two secrets contain the same API key. It takes constant time for keys of equal length. Do not compare
// secrets with ==.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns [redacted].
func (s Secret) String() string { return redacted }

// Format writes [redacted] for every verb, including %#v.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText returns [redacted] for JSON, XML and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Tenant identifies an API key without revealing it. For a forwarded API key, it is a keyed hash. A tenant may be logged and
// used as a map key. All calls with the same tenant share polls and caches.
type Tenant string

// Fingerprint returns a short form of a tenant for display: the word "held" for the shared API key, and the first eight hex
// digits for a forwarded API key. The fingerprint of a forwarded API key differs between processes.
func (t Tenant) Fingerprint() string { return string(t[:min(len(t), 8)]) }

// MarshalText returns the fingerprint, so that JSON output does not contain the complete tenant.
func (t Tenant) MarshalText() ([]byte, error) { return []byte(t.Fingerprint()), nil }

// tenantKey is the random key of the keyed hash that turns a forwarded API key into a tenant. It differs in every process. A
// tenant can't be computed from an API key without tenantKey.
var tenantKey = func() (key [32]byte) {
	_, _ = rand.Read(key[:]) // rand.Read never returns an error
	return key
}()

// Credential contains the API key of a call and the call's owner.
type Credential struct {
	Tenant Tenant
	Shared bool // whether the API key is the server's shared one, which only the operator can replace
	// Owner is the owner of a call that uses the shared API key. It is empty for polls and for anonymous callers. All anonymous
	// callers count as one owner.
	Owner string
	// Weight is the owner's share of the catalog's capacity, relative to other owners. Zero means 1.
	Weight float64
	key    func() Secret
	sum    string // SHA-256 of the API key in hex; empty if the API key can be rotated
}

// Forwarded returns the credential of a caller that sent its own API key.
func Forwarded(key Secret) Credential {
	sum := sumOf(key)
	keyed := sha256.Sum256(append(tenantKey[:], sum...))
	return Credential{Tenant: Tenant(hexOf(keyed[:16])), key: func() Secret { return key }, sum: sum}
}

func sumOf(key Secret) string {
	sum := sha256.Sum256([]byte(key.Reveal()))
	return hexOf(sum[:])
}

// hexOf returns a digest in hex.
func hexOf(sum []byte) string {
	var text [2 * sha256.Size]byte
	return string(hex.AppendEncode(text[:0], sum))
}

// sharedTenant is the tenant of the shared API key.
const sharedTenant Tenant = "held"

// Shared returns the credential for the shared API key. currentKey returns the current API key. The tenant stays the same when
// the API key is rotated.
func Shared(currentKey func() Secret) Credential {
	return Credential{Tenant: sharedTenant, Shared: true, key: currentKey}
}

// IdempotencyKey returns the idempotency key to send to the catalog. With a forwarded API key, it is the given key. With the
// shared API key, it is derived from the owner and the given key, so that two owners can use the same key for different orders.
// The derivation must never change. Otherwise a resent order would have a different idempotency key and would be charged again.
func (c Credential) IdempotencyKey(key string) string {
	if !c.Shared {
		return key
	}
	text := binary.BigEndian.AppendUint64([]byte("easel1"), uint64(len(c.Owner)))
	sum := sha256.Sum256(append(append(text, c.Owner...), key...))
	return hexOf(sum[:])
}

// IsShared reports whether the credential uses the server's shared API key. Several owners and background work can use this
// key.
func (c Credential) IsShared() bool { return c.Shared }

// OrderOwner returns the owner of orders that are placed with the credential: Owner for the shared API key, otherwise the
// SHA-256 of the API key.
func (c Credential) OrderOwner() string {
	if c.Shared {
		return c.Owner
	}
	return c.APIKeySum()
}

// ForwardedSum returns the SHA-256 of a forwarded API key, in hex. It is empty for a shared API key.
func (c Credential) ForwardedSum() string {
	if c.Shared {
		return ""
	}
	return c.APIKeySum()
}

// APIKey returns the current API key.
func (c Credential) APIKey() Secret {
	if c.key == nil {
		return Secret{}
	}
	return c.key()
}

// APIKeySum returns the SHA-256 of the API key, in hex. It is the same in every process.
func (c Credential) APIKeySum() string {
	if c.sum != "" {
		return c.sum
	}
	return sumOf(c.APIKey())
}

// Pinned returns a copy of the credential that keeps the current API key, even if the shared API key is rotated later.
func (c Credential) Pinned() Credential {
	key := c.APIKey()
	c.key = func() Secret { return key }
	c.sum = sumOf(key)
	return c
}
