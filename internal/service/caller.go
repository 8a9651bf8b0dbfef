package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

// call says who calls, and under which API key.
type call struct {
	credential catalog.Credential // its Owner is whom the orders of the call belong to
	caller     string             // name of a known caller; "" where the caller forwards its own API key
	operator   bool               // sees every owner's orders
	everybody  bool               // nobody here has a name: it sees and changes what is anybody's

	certificate *Certificate // of its connection; nil without one
	// proof is what a verified token of an issuer has proved, until its end; nil without one.
	proof *auth.Proof
	// listed is the list of callers in force; nil without a callers file.
	listed *auth.List
}

// proved is the end of what a token and a certificate have proved; zero without either.
func (c call) proved() (until time.Time) {
	if c.certificate != nil {
		until = c.certificate.Until
	}
	if c.proof != nil && (until.IsZero() || c.proof.Until.Before(until)) {
		until = c.proof.Until
	}
	return until
}

// team is what the owner of the call may spend and order; no limit without a callers file.
func (c call) team() auth.Team { return c.listed.Team(c.credential.Owner) }

// mayUse reports whether a call may list, read, quote and order a model. A team reads its older orders of any model.
func (c call) mayUse(model string) bool { return c.operator || c.team().Allows(model) }

// seesAccount reports whether the account's money is the caller's business: behind a callers file it is the
// operators'.
func (c call) seesAccount() bool { return c.listed == nil || c.operator }

// LimitsOf are the budgets of a team.
func LimitsOf(team auth.Team) ledger.Limits {
	return ledger.Limits{DailyCents: team.DailyCents, MonthlyCents: team.MonthlyCents}
}

// Certificate is how a caller's verified client certificate calls it. Nil is no certificate.
type Certificate struct {
	// Names are its URIs, then its DNS names.
	Names []string
	// CommonName is that of its subject.
	CommonName string
	// Until is when it ends, or another of its chain does.
	Until time.Time
	// Counts reports whether a handshake would take it now: its authority may be in force no more.
	Counts func() bool
}

// Name is the first URI (as in SPIFFE), else the first DNS name, else the common name.
func (c *Certificate) Name() string {
	switch {
	case c == nil:
		return ""
	case len(c.Names) > 0:
		return c.Names[0]
	}
	return c.CommonName
}

type callKey struct{}

// credential gives the API key of the call. Authenticate has put it there: without it there
// is none, and the catalog refuses.
func credential(ctx context.Context) catalog.Credential { return who(ctx).credential }

// nobody has no credential.
var nobody = &call{}

// who gives who calls, which nobody changes.
func who(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return nobody
}

// Caller gives the name of the caller, for logs; "" where it has none.
func Caller(ctx context.Context) string { return who(ctx).caller }

// upstreamIdempotencyKey gives the idempotency key that goes to the catalog. Under a held API key it is
// derived from the owner and the caller's idempotency key, so that two owners who choose the same one
// have two orders; it is the same in every process. Forwarded API keys separate their owners already,
// and the idempotency key goes as it is.
func upstreamIdempotencyKey(ctx context.Context, key string) string {
	c := who(ctx)
	if !c.credential.Held {
		return key
	}
	text := binary.BigEndian.AppendUint64([]byte("easel1"), uint64(len(c.credential.Owner)))
	text = append(append(text, c.credential.Owner...), key...)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// AddressKey is where the context of a call has the network address of its caller, as a string.
type AddressKey struct{}

func addressOf(ctx context.Context) string {
	address, _ := ctx.Value(AddressKey{}).(string)
	return address
}

// APIKey gives the fingerprint of the API key that the call runs under, for logs; "" before
// Authenticate has found it.
func APIKey(ctx context.Context) string {
	return credential(ctx).Tenant.Fingerprint()
}

// Subject names the caller that a call counts for in the limits of the server: the caller that has
// proved who it is, else the tenant of the API key that it brings.
func Subject(ctx context.Context) string {
	c := who(ctx)
	if c.caller != "" {
		return c.caller
	}
	return string(c.credential.Tenant)
}

// Sharer names who a call counts for where it wants what all share, such as a processor for something large: the owner
// of its orders, behind any API key.
func Sharer(ctx context.Context) string { return credential(ctx).Sharer() }

const (
	// mostKeyBytes is the longest API key, and mostTokenBytes the longest token: one of an issuer has claims of others too.
	mostKeyBytes, mostTokenBytes = 4 << 10, 8 << 10
	// keysDelay is after how long it is worth asking again for the keys of an issuer.
	keysDelay = 2 * time.Second
)

// Authenticate finds out under which credential a call runs, and denies by default.
//
// Without a held API key the caller's own API key is forwarded. With one, the caller proves who
// it is by its certificate or by a token; its token never goes upstream.
func (s *Service) Authenticate(ctx context.Context, certificate *Certificate) (context.Context, error) {
	token, err := s.bearer(ctx)
	if err != nil {
		return nil, err
	}
	if s.cfg.Held == nil {
		if token == "" {
			return nil, errNoAPIKey
		}
		forwarded := catalog.Forwarded(catalog.NewSecret(token))
		if err := s.cfg.Catalog.Rejection(forwarded.Tenant); err != nil {
			return nil, err
		}
		return with(ctx, call{credential: forwarded, certificate: certificate}), nil
	}
	caller, err := s.identify(token, certificate)
	if err != nil {
		return nil, err
	}
	caller.certificate = certificate
	return with(ctx, caller), nil
}

// Admit refuses a call that Authenticate would refuse, as far as maps show it. Forwarded API keys and JWTs pass it.
func (s *Service) Admit(ctx context.Context, certificate *Certificate) error {
	token, err := s.bearer(ctx)
	if err != nil {
		return err
	}
	if s.cfg.Held == nil {
		if token == "" {
			return errNoAPIKey
		}
		return nil
	}
	if s.cfg.Callers != nil && s.cfg.Callers.List().HasIssuers() && strings.Count(token, ".") == 2 {
		return nil
	}
	_, err = s.identify(token, certificate)
	return err
}

func with(ctx context.Context, c call) context.Context {
	return context.WithValue(ctx, callKey{}, &c)
}

// identify names the caller behind a held API key, and the owner of its orders.
func (s *Service) identify(token string, certificate *Certificate) (call, error) {
	if s.cfg.Callers != nil {
		return s.find(s.cfg.Callers.List(), token, certificate)
	}
	if name := certificate.Name(); name != "" {
		return call{credential: s.held(name, 0), caller: name}, nil
	}
	return s.anonymous(nil)
}

// find finds the caller in a list, by its token or else by its certificate. A wrong token or certificate is
// never overlooked.
func (s *Service) find(list *auth.List, token string, certificate *Certificate) (call, error) {
	switch {
	case token != "":
		return s.byToken(list, token)
	case certificate.Name() != "":
		caller, known := list.ByCertificate(certificate.Names)
		if !known {
			return call{}, errCertificateUnknown
		}
		return s.listed(list, caller, call{}), nil
	}
	return s.anonymous(list)
}

// byToken finds the caller of a service token, or of a token of an issuer.
func (s *Service) byToken(list *auth.List, token string) (call, error) {
	if caller, known := list.ByToken(token); known {
		return s.listed(list, caller, call{}), nil
	}
	if !list.HasIssuers() {
		return call{}, errTokenUnknown
	}
	proof, err := s.cfg.Callers.Issuers.Verify(token, list.HasSubject)
	switch {
	case errors.Is(err, auth.ErrNoKeys):
		return call{}, errKeysUnknown
	case err != nil:
		return call{}, Fail(easelv1.ErrorReason_CALLER_UNKNOWN, err.Error())
	}
	return s.byProof(list, proof)
}

// byProof finds the caller that a verified token has named.
func (s *Service) byProof(list *auth.List, proof auth.Proof) (call, error) {
	caller, known := list.BySubject(proof.Subject)
	if !known {
		return call{}, errSubjectUnknown
	}
	return s.listed(list, caller, call{proof: &proof}), nil
}

// listed is the call of a caller in a list, which is proved as proof says.
func (s *Service) listed(list *auth.List, caller auth.Caller, proof call) call {
	proof.credential, proof.caller, proof.operator, proof.listed = s.held(caller.Owner(), caller.Team.Weight), caller.Name, caller.Operator, list
	return proof
}

// anonymous is a caller without any proof of its name, where such may call.
func (s *Service) anonymous(list *auth.List) (call, error) {
	if s.cfg.AllowAnonymous {
		return call{credential: s.held("", 0), caller: auth.Anonymous, everybody: list == nil && !s.cfg.Certificates, listed: list}, nil
	}
	return call{}, Fail(easelv1.ErrorReason_CALLER_UNKNOWN,
		"prove who you are: a client certificate, or authorization: Bearer <service token>, as gRPC metadata or HTTP header")
}

// held is the credential of an owner's call under the held API key.
func (s *Service) held(owner string, weight float64) catalog.Credential {
	cred := *s.cfg.Held
	cred.Owner, cred.Weight = owner, cmp.Or(weight, 1)
	return cred
}

// ErrUncertified refuses a call over a connection whose client certificate counts no more.
var ErrUncertified = Fail(easelv1.ErrorReason_CALLER_UNKNOWN, "the certificate of this connection has expired, or its authority counts no more: connect again with another")

var (
	errNoAPIKey           = Fail(easelv1.ErrorReason_CREDENTIAL_MISSING, "send your catalog key: authorization: Bearer <key>, as gRPC metadata or HTTP header")
	errTokenUnknown       = Fail(easelv1.ErrorReason_CALLER_UNKNOWN, "unknown service token; send the token that the operator of this server issued")
	errSubjectUnknown     = Fail(easelv1.ErrorReason_CALLER_UNKNOWN, "no caller here has the subject (sub) of the token")
	errKeysUnknown        = Fail(easelv1.ErrorReason_ISSUER_UNAVAILABLE, auth.ErrNoKeys.Error(), &errdetails.RetryInfo{RetryDelay: durationpb.New(keysDelay)})
	errCertificateUnknown = Fail(easelv1.ErrorReason_CALLER_UNKNOWN, "unknown client certificate; have its DNS name or URI listed in the callers file")
	errCallerChanged      = Fail(easelv1.ErrorReason_CALLER_UNKNOWN, "this caller, its team or what it may see has changed since the call began")
)

// stillKnown gives what tells an open stream whether its caller may still call: since it began, the caller may
// have gone from the callers file or moved to another team, its token may be another's, or the authority of its certificate
// may be in force no more. The end of a certificate is that of a token: a watch is asked to come back, a download goes on.
// It costs little while the files stay.
func (s *Service) stillKnown(ctx context.Context) func() error {
	if c := who(ctx); c.listed == nil && c.certificate == nil {
		return func() error { return nil }
	}
	c := *who(ctx) // a copy, which keeps the newest list
	return func() error {
		if c.certificate != nil && time.Now().Before(c.certificate.Until) && !c.certificate.Counts() { // its end has its own way
			return ErrUncertified
		}
		now, err := s.now(ctx, c)
		if err == nil {
			c.listed = now.listed
		}
		return err
	}
}

// terms gives what tells under which terms the caller of a call may order from a model now: since it began, the caller may
// have gone from the callers file, moved to another team, or got another budget.
func (s *Service) terms(ctx context.Context, model string) func() (orders.Terms, error) {
	c := who(ctx)
	return func() (orders.Terms, error) {
		now, err := s.now(ctx, *c)
		return orders.Terms{Limits: LimitsOf(now.team()), Total: LimitsOf(now.listed.Total()), Refused: !now.mayUse(model)}, err
	}
}

// now is the caller of a call by the callers file of now, which is not read for it.
func (s *Service) now(ctx context.Context, c call) (call, error) {
	if c.listed == nil {
		return c, nil
	}
	newest := s.cfg.Callers.List()
	if newest == c.listed {
		return c, nil
	}
	token, err := s.bearer(ctx)
	if err != nil {
		return c, err
	}
	now, err := s.again(newest, c, token)
	if err == nil && (now.caller != c.caller || now.credential.Owner != c.credential.Owner || now.operator != c.operator) {
		err = errCallerChanged
	}
	return now, err
}

// again finds the caller of a call in a newer list. What a token of an issuer has proved when the call began stays proved.
func (s *Service) again(newest *auth.List, c call, token string) (call, error) {
	if c.proof != nil {
		return s.byProof(newest, *c.proof)
	}
	return s.find(newest, token, c.certificate)
}

// bearer gives the token of the call's authorization metadata, or "" where there is none.
func (s *Service) bearer(ctx context.Context) (string, error) {
	most := mostTokenBytes
	if s.cfg.Held == nil {
		most = mostKeyBytes
	}
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !strings.EqualFold(scheme, "bearer") || token == "" || strings.ContainsFunc(token, notVisible) || len(token) > most {
		return "", Fail(easelv1.ErrorReason_CREDENTIAL_MALFORMED,
			"authorization must be sent once, as: Bearer <key>")
	}
	return token, nil
}

// notVisible reports whether a character is not one of visible ASCII.
func notVisible(r rune) bool { return r < '!' || r > '~' }
