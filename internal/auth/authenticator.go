package auth

import (
	"cmp"
	"context"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

const (
	maxAPIKey = 4 << 10 // maximum size of an API key in bytes
	maxToken  = 8 << 10 // maximum size of a token in bytes; larger than maxAPIKey, because a JWT may contain claims for other services
)

// visibleForm matches one or more visible ASCII characters. Spaces do not match. All credentials have this form.
var visibleForm = regexp.MustCompile(`^[!-~]+$`)

// Config is the configuration of an [Authenticator].
type Config struct {
	// Catalog is the catalog client, which remembers the API keys that the catalog has rejected. Required.
	Catalog *catalog.Client
	// SharedKey is the shared API key. If it is nil, each caller's own API key is forwarded.
	SharedKey *catalog.Credential
	// Callers contains the callers that may use the shared API key. Nil means that there is no callers file.
	Callers *Callers
	// Certificates allows callers to authenticate with a client certificate if there is no callers file. The name in the
	// certificate is then the caller's name.
	Certificates bool
	// AllowAnonymous allows callers without a token or a certificate to use the shared API key.
	AllowAnonymous bool
}

// Authenticator authenticates callers. It rejects every caller that the configuration does not allow.
type Authenticator struct{ cfg Config }

// New creates an authenticator.
func New(cfg Config) *Authenticator { return &Authenticator{cfg} }

// Error is an authentication error.
type Error struct {
	Reason easelv1.ErrorReason
	Text   string
	Delay  time.Duration // delay before a retry; zero means that a retry does not help
}

func (e *Error) Error() string { return e.Text }

// ErrUncertified is the error for a call over a connection whose client certificate is no longer valid.
var ErrUncertified error = unknown("the client certificate of this connection is no longer valid; reconnect with a valid one")

var (
	errNoAPIKey           = &Error{easelv1.ErrorReason_CREDENTIAL_MISSING, "no API key; send authorization: Bearer <API key>, as gRPC metadata or an HTTP header", 0}
	errMalformed          = &Error{easelv1.ErrorReason_CREDENTIAL_MALFORMED, "authorization must be sent once, as: Bearer <key>", 0}
	errTokenUnknown       = unknown("unknown service token; send the token that the operator of this server issued")
	errSubjectUnknown     = unknown("the subject (sub) of the token is unknown; ask the operator to add it to the callers file")
	errCertificateUnknown = unknown("unknown client certificate; ask the operator to add its DNS name or URI to the callers file")
	errNoProof            = unknown("no credential; use a client certificate, or send authorization: Bearer <service token>, as gRPC metadata or an HTTP header")
	errChanged            = unknown("this caller, its team or its rights have changed since the call started; call again")
)

func unknown(text string) *Error { return &Error{easelv1.ErrorReason_CALLER_UNKNOWN, text, 0} }

// Authenticate identifies the caller by its forwarded API key, its token or its certificate, and adds the caller's identity to
// the context of the call. It never sends a token to the catalog.
func (a *Authenticator) Authenticate(ctx context.Context, certificate *Certificate) (context.Context, error) {
	token, err := a.bearerToken(ctx)
	if err != nil {
		return nil, err
	}
	identity, err := a.identify(token, certificate)
	if err != nil {
		return nil, err
	}
	identity.certificate = certificate
	return WithIdentity(ctx, identity), nil
}

// Admit rejects most calls that Authenticate would reject, but is faster. It checks only the syntax of a forwarded API key, and
// does not verify a JWT. It checks all other tokens and certificates completely, because this takes only a map lookup.
func (a *Authenticator) Admit(ctx context.Context, certificate *Certificate) error {
	token, err := a.bearerToken(ctx)
	if err != nil {
		return err
	}
	isJWT := a.cfg.Callers != nil && len(a.cfg.Callers.List().Issuers) > 0 && strings.Count(token, ".") == 2
	if isJWT || a.cfg.SharedKey == nil && token != "" {
		return nil
	}
	_, err = a.identify(token, certificate)
	return err
}

// bearerToken returns the bearer token in the authorization metadata, or "" if there is no such metadata.
func (a *Authenticator) bearerToken(ctx context.Context) (string, error) {
	limit := maxToken
	if a.cfg.SharedKey == nil {
		limit = maxAPIKey
	}
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !strings.EqualFold(scheme, "bearer") || !visibleForm.MatchString(token) || len(token) > limit {
		return "", errMalformed
	}
	return token, nil
}

// identify returns the identity for a token or a certificate. If there is a callers file, a token takes precedence: an invalid
// token is rejected even if the certificate is valid.
func (a *Authenticator) identify(token string, certificate *Certificate) (*Identity, error) {
	name := certificate.Name()
	switch {
	case a.cfg.SharedKey == nil:
		return a.identifyForwarded(token)
	case a.cfg.Callers == nil && name != "":
		return &Identity{Caller: name, Owner: name, APIKey: a.sharedCredential(name, 0), SeesAccount: true}, nil
	case a.cfg.Callers != nil && token != "":
		return a.identifyToken(token)
	case a.cfg.Callers != nil && name != "":
		return a.identifyListed(func(l *List) *Caller { return l.callerOfCertificate(certificate.Names) }, errCertificateUnknown, time.Time{})
	}
	return a.identifyAnonymous()
}

// identifyForwarded returns the identity of a caller whose own API key is forwarded. It returns an error if there is no key, or
// if the catalog is known to reject the key. It does not check the key otherwise: the catalog does so with each request.
func (a *Authenticator) identifyForwarded(token string) (*Identity, error) {
	if token == "" {
		return nil, errNoAPIKey
	}
	key := catalog.Forwarded(catalog.NewSecret(token))
	if err := a.cfg.Catalog.Rejection(key.Tenant); err != nil {
		return nil, err
	}
	return &Identity{Owner: key.APIKeySum(), APIKey: key, SeesAccount: true}, nil
}

// identifyToken returns the identity of the caller that a service token or a JWT belongs to.
func (a *Authenticator) identifyToken(token string) (*Identity, error) {
	list, hash := a.cfg.Callers.List(), hashOf(token)
	if list.tokens[hash] != nil || len(list.Issuers) == 0 {
		return a.identifyListed(func(l *List) *Caller { return l.tokens[hash] }, errTokenUnknown, time.Time{})
	}
	subject, until, err := list.verify(token)
	if err != nil {
		return nil, err
	}
	return a.identifyListed(func(l *List) *Caller { return l.subjects[subject] }, errSubjectUnknown, until)
}

// identifyListed returns the identity of a caller in the current list of callers. findCaller selects the caller from the list.
// If it returns nil, identifyListed returns missingErr. After a change of the list, identifyListed is called again with the
// same arguments. expiry is the time until which the caller's JWT is accepted, or zero if the caller has no JWT.
func (a *Authenticator) identifyListed(findCaller func(*List) *Caller, missingErr error, expiry time.Time) (*Identity, error) {
	list := a.cfg.Callers.List()
	c := findCaller(list)
	if c == nil {
		return nil, missingErr
	}
	return &Identity{
		Caller: c.Name, Owner: c.Owner(), Operator: c.Operator, SeesAccount: c.Operator, APIKey: a.sharedCredential(c.Owner(), c.Team.Weight),
		Limits: c.Team, Total: list.Total, list: list, until: expiry, renew: func() (*Identity, error) { return a.identifyListed(findCaller, missingErr, expiry) },
	}, nil
}

// identifyAnonymous returns the identity of a caller without a token or certificate. It returns an error if the configuration
// does not allow such callers.
func (a *Authenticator) identifyAnonymous() (*Identity, error) {
	if !a.cfg.AllowAnonymous {
		return nil, errNoProof
	}
	identity := &Identity{Caller: Anonymous, APIKey: a.sharedCredential("", 0), renew: a.identifyAnonymous}
	if identity.list = a.cfg.Callers.List(); identity.list == nil {
		identity.SeesAccount, identity.nameless = true, !a.cfg.Certificates
	} else {
		identity.Total = identity.list.Total
	}
	return identity, nil
}

// sharedCredential returns the shared API key as a credential for an owner's requests. weight determines the owner's share of
// the requests, relative to the weights of other owners. Zero means 1.
func (a *Authenticator) sharedCredential(owner string, weight float64) catalog.Credential {
	key := *a.cfg.SharedKey
	key.Owner, key.Weight = owner, cmp.Or(weight, 1)
	return key
}

// StillKnown returns a function that checks whether the caller of an open stream is still authorized. The function returns an
// error if one of the following was removed after the call started: the caller, its token, its right to act as an operator, or
// the CA of its certificate. An expired certificate is not an error.
func (a *Authenticator) StillKnown(ctx context.Context) func() error {
	latest := Of(ctx)
	return func() error {
		if c := latest.certificate; c != nil && time.Now().Before(c.Until) && !c.Counts() {
			return ErrUncertified
		}
		newer, err := a.Renewed(latest)
		if err == nil {
			latest = newer
		}
		return err
	}
}

// Renewed returns the caller's identity according to the current list of callers. It returns an error if the caller was
// removed, or if its name, its owner or its status as an operator has changed. It neither rereads the file nor verifies a JWT
// again.
func (a *Authenticator) Renewed(old *Identity) (*Identity, error) {
	if old.list == nil || old.list == a.cfg.Callers.List() {
		return old, nil
	}
	newer, err := old.renew()
	if err != nil {
		return nil, err
	}
	newer.certificate = old.certificate
	if newer.Caller != old.Caller || newer.Owner != old.Owner || newer.Operator != old.Operator {
		return nil, errChanged
	}
	return newer, nil
}
