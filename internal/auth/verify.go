package auth

import (
	"errors"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	leeway    = 30 * time.Second // allowed difference between the clocks of an issuer and this server
	keysDelay = 2 * time.Second  // retry delay that callers receive if the keys of a token's issuer are not loaded
)

// Errors that state why a token is rejected.
var (
	errNoKeys      = &Error{easelv1.ErrorReason_ISSUER_UNAVAILABLE, "the keys of the token's issuer are not loaded yet; retry later", keysDelay}
	errNoToken     = unknown("unknown service token; send the token that the operator issued, or a JWT from an issuer that this server lists")
	errIssuer      = unknown("the issuer (iss) of the token is unknown; get a token from an issuer that this server lists")
	errAudience    = unknown("the token is for another audience; get a token for this server's audience")
	errExpired     = unknown("the token has expired; get a new one")
	errEndless     = unknown("the token has no expiry (exp)")
	errNotYet      = unknown("the token is not yet valid")
	errNoSubject   = unknown("the token has no subject (sub)")
	errKind        = unknown("the type (typ) of the token is not accepted")
	errUnknownKey  = unknown("the issuer has no key with the token's kid and algorithm; get a new token, or retry after the issuer has published the key")
	errOldKeys     = unknown("issuer keys unreadable for a day; ask the operator of this server")
	errWrongSigned = unknown("the signature of the token is invalid; get a new token")
)

// algorithms are the accepted signature algorithms, all asymmetric. ES512 is excluded, because rejecting a forged token
// would take milliseconds of CPU time.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.EdDSA,
}

// kinds contains the accepted values of a token's type header (typ). The value nil accepts a token without this header.
var kinds = []any{nil, "JWT", "jwt", "JOSE", "at+jwt", "application/at+jwt"}

// verify returns the subject of a JWT and the time until which this server accepts the token: its expiry time plus [leeway]. If
// the issuer's keys are not loaded, verify returns an error immediately. All errors have the type [*Error].
func (l *List) verify(token string) (subject Subject, until time.Time, err error) {
	now := time.Now()
	parsed, err := jwt.ParseSigned(token, algorithms)
	var claims jwt.Claims
	if err != nil || len(parsed.Headers) != 1 || parsed.UnsafeClaimsWithoutVerification(&claims) != nil {
		return subject, until, errNoToken
	}
	issuer, header := l.Issuers[claims.Issuer], parsed.Headers[0]
	if issuer == nil {
		return subject, until, errIssuer
	}
	if err := checkClaims(header, claims, issuer.Audience, now); err != nil {
		return subject, until, err
	}
	keys, err := issuer.candidateKeys(header, now)
	if err == nil && !slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return parsed.Claims(k.Key) == nil }) {
		err = errWrongSigned
	}
	if err != nil {
		return subject, until, err
	}
	return Subject{claims.Issuer, claims.Subject}, claims.Expiry.Time().Add(leeway), nil
}

// checkClaims checks the header and the claims of a token, but not its signature. It returns the reason for a rejection, or
// nil.
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
