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
)

const (
	// keysFileInterval and keysURLInterval are between two reads of keys that succeed.
	keysFileInterval, keysURLInterval = time.Second, 5 * time.Minute
	// keysRetry is the least time between two reads of an address: after a failure, and where a token has an unknown key.
	keysRetry = 10 * time.Second
	// keysAge is how long keys stay in force that can't be read again.
	keysAge = 24 * time.Hour
	// leeway is how far clocks may differ.
	leeway = 30 * time.Second
)

// ErrNoKeys is the error of a token of an issuer whose keys were never read.
var ErrNoKeys = errors.New("issuer keys not loaded yet")

// Why a token proves nothing.
var (
	errNoToken     = errors.New("this is no service token that is known here, and no token (JWT) with an asymmetric signature")
	errIssuer      = errors.New("no issuer here has the name that the token has in iss")
	errAudience    = errors.New("the token is for another audience")
	errExpired     = errors.New("the token has expired")
	errEndless     = errors.New("the token has no exp: it must expire")
	errNotYet      = errors.New("the token is not yet valid")
	errNoSubject   = errors.New("the token has no sub")
	errKind        = errors.New("the token is of a kind (typ) that proves no name")
	errUnknownKey  = errors.New("the issuer has no key of the token's kid and algorithm")
	errOldKeys     = errors.New("issuer keys unreadable for a day")
	errWrongSigned = errors.New("the signature of the token is wrong")
)

// algorithms are those of signatures: by a key that the verifier can't sign with. ES512 is not among them: who forges a
// token would make a processor work for milliseconds.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.EdDSA,
}

// kinds are the types of tokens that are taken.
var kinds = []any{nil, "JWT", "jwt", "JOSE", "at+jwt", "application/at+jwt"}

// Proof is what a verified token proves, and until when.
type Proof struct {
	Subject Subject
	Until   time.Time
}

// Verifier verifies tokens of issuers by the keys that Run reads. It waits for no response.
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
	for _, issuer := range list.Issuers() {
		issuer.Line = 0
		one := old[issuer.Name]
		if one == nil || one.issuer != issuer {
			one = one.edited(issuer)
			one.logger, one.asked = v.logger, make(chan struct{})
		}
		next[issuer.Name] = one
	}
	v.signers.Store(&next)
}

// edited returns a signer for the new members of an issuer. s is nil if the issuer is new.
func (s *signer) edited(issuer Issuer) *signer {
	next := &signer{issuer: issuer}
	if s != nil && s.issuer.KeysFile == issuer.KeysFile && s.issuer.KeysURL == issuer.KeysURL {
		s.mu.Lock()
		defer s.mu.Unlock()
		next.keys, next.inForce = s.keys, s.inForce
	}
	return next
}

// Run reads the keys of the issuers until ctx ends: at once, and then again and again.
func (v *Verifier) Run(ctx context.Context) {
	var reads sync.WaitGroup
	defer reads.Wait()
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		for _, one := range *v.signers.Load() {
			if one.due(time.Now()) {
				reads.Go(func() { one.read(ctx) })
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// Ready waits until the keys of every issuer have been read or could not be, or ctx ends.
func (v *Verifier) Ready(ctx context.Context) {
	for _, one := range *v.signers.Load() {
		select {
		case <-one.asked:
		case <-ctx.Done():
		}
	}
}

// Problems are why the keys of issuers could not be read the last time, by the names of the issuers.
func (v *Verifier) Problems() map[string]error {
	all := map[string]error{}
	for name, one := range *v.signers.Load() {
		if err := one.failure(); err != nil {
			all[name] = err
		}
	}
	return all
}

// Verify returns the proof of a token. Its error is ErrNoKeys if the keys of the issuer were never read, or the
// reason why the token proves nothing.
func (v *Verifier) Verify(token string) (Proof, error) {
	now := time.Now()
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return Proof{}, errNoToken
	}
	var said jwt.Claims
	if parsed.UnsafeClaimsWithoutVerification(&said) != nil {
		return Proof{}, errNoToken
	}
	from := (*v.signers.Load())[said.Issuer]
	if from == nil {
		return Proof{}, errIssuer
	}
	header := parsed.Headers[0]
	if err := from.judge(header, said, now); err != nil {
		return Proof{}, err
	}
	key, err := from.key(header.KeyID, header.Algorithm, said.IssuedAt, now)
	if err != nil {
		return Proof{}, err
	}
	if parsed.Claims(key.Key) != nil {
		return Proof{}, errWrongSigned
	}
	return Proof{Subject{said.Issuer, said.Subject}, said.Expiry.Time().Add(leeway)}, nil
}

// signer is an issuer with its keys.
type signer struct {
	issuer Issuer
	logger *slog.Logger
	asked  chan struct{} // closed when the first read has ended
	first  sync.Once     // closes it

	mu      sync.Mutex
	keys    []*key
	begun   time.Time // when the last read began
	inForce time.Time // when the last read began that succeeded
	reading bool
	wanted  bool // a token has an unknown key
	problem error
}

// judge looks at what a token says of itself.
func (s *signer) judge(header jose.Header, said jwt.Claims, now time.Time) error {
	err := said.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{s.issuer.Audience}, Time: now}, leeway)
	switch {
	case !slices.Contains(kinds, header.ExtraHeaders[jose.HeaderType]):
		return errKind
	case said.Subject == "":
		return errNoSubject
	case said.Expiry == nil:
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

// key returns the key of a signature. A token that may be newer than the known keys causes a read of newer keys.
func (s *signer) key(id, algorithm string, issued *jwt.NumericDate, now time.Time) (*key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.inForce.IsZero():
		return nil, ErrNoKeys
	case now.Sub(s.inForce) > keysAge:
		return nil, errOldKeys
	}
	var fitting []*key
	unknown := true
	for _, one := range s.keys {
		if id != "" && one.KeyID != id {
			continue
		}
		unknown = false
		if one.fits(algorithm) {
			fitting = append(fitting, one)
		}
	}
	if len(fitting) > 0 && (id != "" || len(fitting) == 1) { // a token without kid needs an issuer with one key
		return fitting[0], nil
	}
	s.wanted = s.wanted || unknown && (issued == nil || issued.Time().Add(leeway).After(s.inForce))
	return nil, errUnknownKey
}

func (s *signer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// due reports whether the keys are to be read now. Then the caller reads them: one at a time does.
func (s *signer) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := keysURLInterval
	switch {
	case s.issuer.KeysFile != "":
		pause = keysFileInterval
	case s.problem != nil || s.wanted:
		pause = keysRetry
	}
	if s.reading || !s.begun.IsZero() && now.Sub(s.begun) < pause {
		return false
	}
	s.reading, s.begun = true, now
	return true
}

// read reads the keys. While they can't be read, the old ones stay.
func (s *signer) read(ctx context.Context) {
	text, err := s.issuer.keys(ctx)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if note := s.took(text, err); note != nil && ctx.Err() == nil {
		note()
	}
	s.first.Do(func() { close(s.asked) })
}

// took takes over what was read, and gives what logs it.
func (s *signer) took(text []byte, err error) (note func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []*key
	if err == nil {
		keys, _, err = parseKeys(text)
	}
	switch {
	case err != nil && (s.problem == nil || s.problem.Error() != err.Error()):
		note = func() {
			s.logger.Error("the keys of an issuer can't be read; the old ones stay for a day", "issuer", s.issuer.Name, "error", err)
		}
	case err == nil && !slices.Equal(keyNames(keys), keyNames(s.keys)):
		before := s.keys
		note = func() {
			s.logger.Info("an issuer has new keys", "issuer", s.issuer.Name, "keys", len(keys), "before", keyNames(before), "after", keyNames(keys))
		}
	case err == nil && s.problem != nil:
		note = func() { s.logger.Info("the keys of an issuer are in order again", "issuer", s.issuer.Name) }
	}
	if err == nil {
		s.keys, s.inForce, s.wanted = keys, s.begun, false
	}
	s.reading, s.problem = false, err
	return note
}
