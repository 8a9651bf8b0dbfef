package service

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/easel-grpc/easel/internal/catalog"
)

// call says who calls, and under which API key.
type call struct {
	credential catalog.Credential
	caller     string // name of a known caller; "" where the caller forwards its own API key
	// listed is the list that has the caller's token; nil where it has none.
	listed *callerList
}

type callKey struct{}

// credential gives the API key of the call. Authenticate has put it there: without it there
// is none, and the catalog refuses.
func credential(ctx context.Context) catalog.Credential {
	c, _ := ctx.Value(callKey{}).(call)
	return c.credential
}

// Caller gives the name of the caller, for logs; "" where it has none.
func Caller(ctx context.Context) string {
	c, _ := ctx.Value(callKey{}).(call)
	return c.caller
}

// upstreamIdempotencyKey gives the idempotency key that goes to the catalog. Under a held API key it is
// derived from the owner and the caller's idempotency key, so that two owners who choose the same one
// have two orders; it is the same in every process. Forwarded API keys separate their owners already,
// and the idempotency key goes as it is.
func upstreamIdempotencyKey(ctx context.Context, key string) string {
	c, _ := ctx.Value(callKey{}).(call)
	if !c.credential.Held {
		return key
	}
	text := binary.BigEndian.AppendUint64([]byte("easel1"), uint64(len(c.credential.Owner)))
	text = append(append(text, c.credential.Owner...), key...)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// APIKey gives the fingerprint of the API key that the call runs under, for logs; "" before
// Authenticate has found it.
func APIKey(ctx context.Context) string {
	return credential(ctx).Tenant.Fingerprint()
}

// Subject names the caller that a call counts for in the limits of the server: the caller that has
// proved who it is, else the tenant of the API key that it brings.
func Subject(ctx context.Context) string {
	c, _ := ctx.Value(callKey{}).(call)
	if c.caller != "" {
		return c.caller
	}
	return string(c.credential.Tenant)
}

// Accepted reports whether the caller that [Subject] names is known: callers behind a held API key have
// proved who they are, and a forwarded API key is known when the catalog has accepted it lately.
func (s *Service) Accepted(subject string) bool {
	return s.cfg.Held != nil || s.cfg.Catalog.Accepted(catalog.Tenant(subject))
}

// Authenticate finds out under which credential a call runs, and denies by default.
// certName is the name in the caller's verified client certificate, or "".
//
// Without a held API key the caller's own API key is forwarded. With one, the caller proves who
// it is by its certificate or by a service token; its token never goes upstream.
func (s *Service) Authenticate(ctx context.Context, certName string) (context.Context, error) {
	token, err := bearer(ctx)
	if err != nil {
		return nil, err
	}
	if s.cfg.Held == nil {
		if token == "" {
			return nil, Fail(codes.Unauthenticated, "CREDENTIAL_MISSING",
				"send your catalog key: authorization: Bearer <key>, as gRPC metadata or HTTP header")
		}
		return with(ctx, call{credential: catalog.Forwarded(catalog.NewSecret(token))}), nil
	}
	who, err := s.identify(token, certName)
	if err != nil {
		return nil, err
	}
	return with(ctx, who), nil
}

func with(ctx context.Context, c call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// identify names the caller behind a held API key, and the owner of its orders. A wrong token is never
// overlooked.
func (s *Service) identify(token, certName string) (call, error) {
	if token != "" && s.cfg.Callers != nil {
		list := s.cfg.Callers.list.Get()
		name, ok := list.find(token)
		if !ok {
			return call{}, errTokenUnknown
		}
		return call{s.held(name), name, list}, nil
	}
	if certName != "" {
		return call{s.held(certName), certName, nil}, nil
	}
	if s.cfg.AllowAnonymous {
		return call{s.held(""), "anonymous", nil}, nil
	}
	return call{}, Fail(codes.Unauthenticated, "CALLER_UNKNOWN",
		"prove who you are: a client certificate, or authorization: Bearer <service token>, as gRPC metadata or HTTP header")
}

// held is the credential of an owner's call under the held API key.
func (s *Service) held(owner string) catalog.Credential {
	cred := *s.cfg.Held
	cred.Owner = owner
	return cred
}

var errTokenUnknown = Fail(codes.Unauthenticated, "CALLER_UNKNOWN", "the service token is not known here")

// stillKnown gives what tells an open stream whether its caller may still call: a token may have been
// taken out of the callers file since, or be another caller's now. It costs little while the file stays.
func (s *Service) stillKnown(ctx context.Context) func() error {
	c, _ := ctx.Value(callKey{}).(call)
	if c.listed == nil {
		return func() error { return nil }
	}
	return func() error {
		newest := s.cfg.Callers.list.Newest()
		if newest == c.listed {
			return nil
		}
		token, err := bearer(ctx)
		if err != nil {
			return err
		}
		if name, ok := newest.find(token); !ok || name != c.caller {
			return errTokenUnknown
		}
		c.listed = newest
		return nil
	}
}

// bearer gives the token of the call's authorization metadata, or "" where there is none.
func bearer(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !strings.EqualFold(scheme, "bearer") || token == "" || strings.ContainsFunc(token, notVisible) || len(token) > 4096 {
		return "", Fail(codes.Unauthenticated, "CREDENTIAL_MALFORMED",
			"authorization must be sent once, as: Bearer <key>")
	}
	return token, nil
}

// notVisible reports whether a character is not one of visible ASCII.
func notVisible(r rune) bool { return r < '!' || r > '~' }
