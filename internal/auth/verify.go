package auth

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	leeway    = 30 * time.Second // allowed difference between the clocks of an issuer and this server
	keysDelay = 2 * time.Second  // retry delay for callers while the keys of an issuer are not loaded
)

// Reasons for the rejection of a token.
var (
	errNoKeys      = &Error{easelv1.ErrorReason_ISSUER_UNAVAILABLE, "issuer keys not loaded yet", keysDelay}
	errNoToken     = unknown("unknown service token; send the token that the operator issued, or a JWT of an issuer that this server lists")
	errIssuer      = unknown("unknown issuer (iss) of the token")
	errAudience    = unknown("the token is for another audience; get one for the audience of this server")
	errExpired     = unknown("the token has expired; get a new one")
	errEndless     = unknown("the token has no expiry (exp)")
	errNotYet      = unknown("the token is not yet valid")
	errNoSubject   = unknown("the token has no subject (sub)")
	errKind        = unknown("the type (typ) of the token is not accepted")
	errUnknownKey  = unknown("the issuer has no key of the token's kid and algorithm; get a new token, or retry when the issuer has published the key")
	errOldKeys     = unknown("issuer keys unreadable for a day")
	errWrongSigned = unknown("the signature of the token is wrong; get a new token")
)

// algorithms are the accepted algorithms, all asymmetric. ES512 is excluded, because a forged token would cost milliseconds of
// CPU.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.EdDSA,
}

// kinds are the accepted types (typ) of tokens.
var kinds = []any{nil, "JWT", "jwt", "JOSE", "at+jwt", "application/at+jwt"}

// Proof is the subject of a verified token, and the time at which the token expires.
type Proof struct {
	Subject Subject
	Until   time.Time
}

// Verifier verifies JWTs with the keys that Run reads. Verification never waits for an issuer.
type Verifier struct {
	logger  *slog.Logger
	signers atomic.Pointer[map[string]*signer] // by name
}

// NewVerifier creates a verifier without issuers.
func NewVerifier(logger *slog.Logger) *Verifier {
	v := &Verifier{logger: logger}
	v.signers.Store(&map[string]*signer{})
	return v
}

// Take applies the issuers of a list. An edited issuer keeps its keys if they still come from the same file or address.
func (v *Verifier) Take(list *List) {
	old, next := *v.signers.Load(), map[string]*signer{}
	for _, issuer := range list.issuers {
		issuer.Line = 0
		next[issuer.Name] = old[issuer.Name].edited(issuer, v.logger)
	}
	v.signers.Store(&next)
}

// Read reads the keys that are due, and waits until the reads have ended.
func (v *Verifier) Read(ctx context.Context) {
	var reads sync.WaitGroup
	for _, s := range *v.signers.Load() {
		if s.isDue(time.Now()) {
			reads.Go(func() { s.read(ctx) })
		}
	}
	reads.Wait()
}

// Run reads the keys of the issuers until ctx is done.
func (v *Verifier) Run(ctx context.Context) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		v.Read(ctx)
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// Problems returns the errors of the last reads of keys, by issuer name.
func (v *Verifier) Problems() map[string]error {
	all := map[string]error{}
	for name, s := range *v.signers.Load() {
		if err := s.failure(); err != nil {
			all[name] = err
		}
	}
	return all
}

// Verify returns the proof of a token. Its error is an [*Error].
func (v *Verifier) Verify(token string) (Proof, error) {
	now := time.Now()
	parsed, err := jwt.ParseSigned(token, algorithms)
	var claims jwt.Claims
	if err != nil || len(parsed.Headers) != 1 || parsed.UnsafeClaimsWithoutVerification(&claims) != nil {
		return Proof{}, errNoToken
	}
	s, header := (*v.signers.Load())[claims.Issuer], parsed.Headers[0]
	if s == nil {
		return Proof{}, errIssuer
	}
	if err := checkClaims(header, claims, s.issuer.Audience, now); err != nil {
		return Proof{}, err
	}
	keys, err := s.candidates(header.KeyID, header.Algorithm, now)
	if err != nil {
		return Proof{}, err
	}
	if !slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return parsed.Claims(k.Key) == nil }) {
		return Proof{}, errWrongSigned
	}
	return Proof{Subject{claims.Issuer, claims.Subject}, claims.Expiry.Time().Add(leeway)}, nil
}

// checkClaims returns the reason for the rejection of a token regardless of its signature, or nil.
func checkClaims(header jose.Header, claims jwt.Claims, audience string, now time.Time) error {
	err := claims.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{audience}, Time: now}, leeway)
	switch {
	case !slices.Contains(kinds, header.ExtraHeaders[jose.HeaderType]):
		return errKind
	case claims.Subject == "":
		return errNoSubject
	case claims.Expiry == nil:
		return errEndless
	case errors.Is(err, jwt.ErrInvalidAudience):
		return errAudience
	case errors.Is(err, jwt.ErrExpired):
		return errExpired
	case err != nil:
		return errNotYet
	}
	return nil
}
