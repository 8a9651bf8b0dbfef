package auth

import (
	"cmp"
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

const (
	maxAPIKey = 4 << 10 // bytes
	maxToken  = 8 << 10 // bytes: a JWT has the claims of other services, too
)

// Config has the ways in which callers may authenticate.
type Config struct {
	// Catalog remembers rejected API keys. Required.
	Catalog *catalog.Client
	// Held is the shared API key. If it is nil, each caller forwards its own API key.
	Held *catalog.Credential
	// Callers are the callers that may use the shared API key. Nil means no callers file.
	Callers *Callers
	// Certificates means that callers have the names of their client certificates if there is no callers file.
	Certificates bool
	// AllowAnonymous lets callers without a token or a certificate use the shared API key.
	AllowAnonymous bool
}

// Authenticator authenticates callers. It denies by default.
type Authenticator struct{ cfg Config }

// New creates an authenticator.
func New(cfg Config) *Authenticator { return &Authenticator{cfg} }

// Error is the reason why a caller is not authenticated.
type Error struct {
	Reason easelv1.ErrorReason
	Text   string
	Delay  time.Duration // until the caller should try again; zero means that trying again does not help
}

func (e *Error) Error() string { return e.Text }

// ErrUncertified rejects a call over a connection whose client certificate is no longer valid.
var ErrUncertified error = unknown("the client certificate of this connection is no longer valid; connect again with another")

var (
	errNoAPIKey           = &Error{easelv1.ErrorReason_CREDENTIAL_MISSING, "send your catalog key: authorization: Bearer <key>, as gRPC metadata or HTTP header", 0}
	errMalformed          = &Error{easelv1.ErrorReason_CREDENTIAL_MALFORMED, "authorization must be sent once, as: Bearer <key>", 0}
	errTokenUnknown       = unknown("unknown service token; send the token that the operator of this server issued")
	errSubjectUnknown     = unknown("no caller here has the subject (sub) of the token")
	errCertificateUnknown = unknown("unknown client certificate; have its DNS name or URI listed in the callers file")
	errNoProof            = unknown("prove who you are: a client certificate, or authorization: Bearer <service token>, as gRPC metadata or HTTP header")
	errChanged            = unknown("this caller, its team or its rights have changed since the call began")
)

func unknown(text string) *Error { return &Error{easelv1.ErrorReason_CALLER_UNKNOWN, text, 0} }

// Authenticate returns the context of a call with its caller. A caller forwards its API key, or proves its name by a token or
// by a certificate. No token is sent to the catalog.
func (a *Authenticator) Authenticate(ctx context.Context, certificate *Certificate) (context.Context, error) {
	token, err := a.bearer(ctx)
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

// Admit rejects a call that Authenticate would reject, if a look at maps shows it. It accepts forwarded API keys and JWTs.
func (a *Authenticator) Admit(ctx context.Context, certificate *Certificate) error {
	token, err := a.bearer(ctx)
	if err != nil {
		return err
	}
	isJWT := a.cfg.Callers != nil && len(a.cfg.Callers.List().issuers) > 0 && strings.Count(token, ".") == 2
	if isJWT || a.cfg.Held == nil && token != "" {
		return nil
	}
	_, err = a.identify(token, certificate)
	return err
}

// bearer returns the token of the authorization metadata, or "" without one.
func (a *Authenticator) bearer(ctx context.Context) (string, error) {
	limit := maxToken
	if a.cfg.Held == nil {
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

// proof finds the caller of a call in any list.
type proof struct {
	find    func(*List) *Caller
	missing error     // error if the list has no such caller
	until   time.Time // time at which a JWT expires; zero for other proofs
}

// identify returns the caller that a token or a certificate proves.
func (a *Authenticator) identify(token string, certificate *Certificate) (*Identity, error) {
	if a.cfg.Held == nil {
		return a.forwarded(token)
	}
	if a.cfg.Callers != nil {
		return a.find(a.cfg.Callers.List(), token, certificate)
	}
	if name := certificate.Name(); name != "" {
		return &Identity{Caller: name, Owner: name, APIKey: a.shared(name, 0), SeesAccount: true}, nil
	}
	return a.anonymous(nil)
}

// forwarded returns the caller that sent an API key of its own. The catalog checks the API key at its first request.
func (a *Authenticator) forwarded(token string) (*Identity, error) {
	if token == "" {
		return nil, errNoAPIKey
	}
	key := catalog.Forwarded(catalog.NewSecret(token))
	if err := a.cfg.Catalog.Rejection(key.Tenant); err != nil {
		return nil, err
	}
	return &Identity{Owner: key.APIKeySum(), APIKey: key, SeesAccount: true}, nil
}

// find returns the caller in a list. A wrong token is rejected even if a caller has the certificate.
func (a *Authenticator) find(list *List, token string, certificate *Certificate) (*Identity, error) {
	switch {
	case token != "":
		return a.byToken(list, token)
	case certificate.Name() != "":
		return a.listed(list, proof{find: func(l *List) *Caller { return l.ByCertificate(certificate.Names) }, missing: errCertificateUnknown})
	}
	return a.anonymous(list)
}

// byToken returns the caller of a service token or of a JWT.
func (a *Authenticator) byToken(list *List, token string) (*Identity, error) {
	hash := hashOf(token)
	if list.tokens[hash] != nil || len(list.issuers) == 0 {
		return a.listed(list, proof{find: func(l *List) *Caller { return l.tokens[hash] }, missing: errTokenUnknown})
	}
	verified, err := a.cfg.Callers.Issuers.Verify(token)
	if err != nil {
		return nil, err
	}
	return a.listed(list, proof{func(l *List) *Caller { return l.subjects[verified.Subject] }, errSubjectUnknown, verified.Until})
}

// listed returns the identity of the caller in a list that a proof names.
func (a *Authenticator) listed(list *List, by proof) (*Identity, error) {
	c := by.find(list)
	if c == nil {
		return nil, by.missing
	}
	return &Identity{
		Caller: c.Name, Owner: c.Owner(), Operator: c.Operator, SeesAccount: c.Operator, APIKey: a.shared(c.Owner(), c.Team.Weight),
		Limits: c.Team, Total: list.Total(), list: list, proof: by,
	}, nil
}

// anonymous returns the identity of a caller without a token and a certificate, if such a caller may call.
func (a *Authenticator) anonymous(list *List) (*Identity, error) {
	if !a.cfg.AllowAnonymous {
		return nil, errNoProof
	}
	return &Identity{
		Caller: Anonymous, APIKey: a.shared("", 0), SeesAccount: list == nil, Total: list.Total(), nameless: list == nil && !a.cfg.Certificates, list: list,
	}, nil
}

// shared returns the shared API key for the requests of an owner.
func (a *Authenticator) shared(owner string, weight float64) catalog.Credential {
	key := *a.cfg.Held
	key.Owner, key.Weight = owner, cmp.Or(weight, 1)
	return key
}

// StillKnown returns a function that reports whether the caller of an open stream may still call. Its token, its rights or the
// authority of its certificate may have been removed since the call began. The expiry of a certificate does not end the stream.
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

// Renewed returns the identity of a caller by the callers file in effect. It reads no file. A JWT that was verified when the call
// began needs no second verification.
func (a *Authenticator) Renewed(old *Identity) (*Identity, error) {
	if old.list == nil || a.cfg.Callers.List() == old.list {
		return old, nil
	}
	list, renew := a.cfg.Callers.List(), a.anonymous
	if old.proof.find != nil {
		renew = func(list *List) (*Identity, error) { return a.listed(list, old.proof) }
	}
	newer, err := renew(list)
	if err != nil {
		return nil, err
	}
	newer.certificate = old.certificate
	if newer.Caller != old.Caller || newer.Owner != old.Owner || newer.Operator != old.Operator {
		return nil, errChanged
	}
	return newer, nil
}
