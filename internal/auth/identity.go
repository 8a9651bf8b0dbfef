package auth

import (
	"cmp"
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Identity is the authenticated caller of a call. It is immutable once [Authenticator.Authenticate] has returned it.
type Identity struct {
	// Caller is the name of the caller. It is empty if the caller forwards an API key.
	Caller string
	// Owner is the owner of the caller's orders: its team, the caller itself or a digest of its forwarded API key. All anonymous
	// callers are one owner, whose name is empty.
	Owner string
	// Operator means that the caller may see and change the orders of every owner.
	Operator bool
	// APIKey is the API key for the call's requests to the catalog.
	APIKey catalog.Credential
	// SeesAccount means that the caller may see the balance of the account. With a callers file, only operators may.
	SeesAccount bool
	// Limits contains the limits on the owner's orders. Total contains the limits on the orders of all owners together. The zero
	// value of a Team has no limits.
	Limits, Total Team

	list        *List                     // list of callers that contains the caller; nil if there is no callers file
	renew       func() (*Identity, error) // identifies the caller again with the current list of callers
	certificate *Certificate              // client certificate; nil if the caller has no certificate
	until       time.Time                 // time until which the caller's JWT is accepted; zero without a JWT
	nameless    bool                      // whether callers have no names, because there are neither a callers file nor client certificates
}

// unauthenticated is the identity of a caller before authentication. It has no API key, so the catalog rejects its requests. Its
// owner has no orders and differs from the owner of anonymous callers.
var unauthenticated = &Identity{Owner: catalog.Credential{}.OrderOwner()}

type identityKey struct{}

// WithIdentity returns a context with the identity of a call's caller.
func WithIdentity(ctx context.Context, i *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// Of returns the identity of a call's caller. Before authentication, it returns an identity without an API key.
func Of(ctx context.Context) *Identity {
	if i, ok := ctx.Value(identityKey{}).(*Identity); ok {
		return i
	}
	return unauthenticated
}

// Subject returns the key under which the server counts the caller's concurrent calls. It is the caller's name or, if the caller
// has no name, the tenant to which its API key belongs.
func (i *Identity) Subject() string { return cmp.Or(i.Caller, string(i.APIKey.Tenant)) }

// SeesAll reports whether the caller sees the orders of every owner. This is true for operators, and for every caller if
// callers have no names.
func (i *Identity) SeesAll() bool { return i.Operator || i.nameless }

// IsIsolated reports whether Easel must hide the owner's orders from other owners that use the same API key. It returns false
// if neither a callers file nor client certificates identify callers. It also returns false for a forwarded API key, because
// the catalog then separates the owners.
func (i *Identity) IsIsolated() bool { return i.APIKey.Shared && !i.nameless }

// SharesAPIKey reports whether other owners may use the same API key.
func (i *Identity) SharesAPIKey() bool { return i.APIKey.Shared }

// MayUse reports whether the caller may list, read, quote and order a model.
func (i *Identity) MayUse(model string) bool { return i.Operator || i.Limits.Allows(model) }

// Until returns the time at which the caller's JWT or certificate expires, whichever is earlier. Zero means that the caller has
// neither.
func (i *Identity) Until() (end time.Time) {
	if i.certificate != nil {
		end = i.certificate.Until
	}
	if !i.until.IsZero() && (end.IsZero() || i.until.Before(end)) {
		end = i.until
	}
	return end
}

// Certificate is the verified client certificate of a connection.
type Certificate struct {
	// Names contains the URIs of the certificate, followed by its DNS names.
	Names []string
	// CommonName is the common name of the subject.
	CommonName string
	// Until is the time until which at least one of the certificate's chains is valid. A chain is valid until the first of its
	// certificates expires.
	Until time.Time
	// Counts reports whether a handshake would still accept the certificate. For example, it returns false after the CA of the
	// certificate was removed.
	Counts func() bool
}

// Name returns the certificate's first URI, such as a SPIFFE ID. Without a URI, it returns the first DNS name. Without a DNS
// name, it returns the common name. It returns "" if c is nil.
func (c *Certificate) Name() string {
	switch {
	case c == nil:
		return ""
	case len(c.Names) > 0:
		return c.Names[0]
	}
	return c.CommonName
}
