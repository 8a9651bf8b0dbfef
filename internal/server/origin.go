package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// What Local says of a REST call, beside the call's own metadata. Only the gRPC server in memory reads
// these names, and no handler ever sees them. They end in -bin so that any bytes get through.
const (
	metadataPeer           = "easel-rest-peer-bin"
	metadataCertificate    = "easel-rest-certificate-bin"
	metadataIdempotencyKey = "easel-rest-idempotency-key-bin"
)

// origin is who makes a call.
type origin struct {
	peer     string       // network address, for logs
	certName string       // name in the verified client certificate, or ""
	conn     *countedConn // nil for a REST call
	// idempotencyKeys are the values of the Idempotency-Key header of a REST call.
	idempotencyKeys []string
}

// peerOrigin reads the origin from the connection. Nothing that the caller writes
// into metadata changes it.
func peerOrigin(ctx context.Context) (from origin) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return from
	}
	if p.Addr != nil {
		from.peer = p.Addr.String()
	}
	if addr, ok := p.Addr.(countedAddr); ok {
		from.conn = addr.conn
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		from.certName = certificateName(&info.State)
	}
	return from
}

// restOrigin reads the origin that describeCall wrote.
func restOrigin(ctx context.Context) origin {
	return origin{
		peer:     first(metadata.ValueFromIncomingContext(ctx, metadataPeer)),
		certName: first(metadata.ValueFromIncomingContext(ctx, metadataCertificate)),

		idempotencyKeys: metadata.ValueFromIncomingContext(ctx, metadataIdempotencyKey),
	}
}

// describeCall writes what restOrigin reads.
func describeCall(r *http.Request) metadata.MD {
	md := metadata.Pairs(metadataPeer, r.RemoteAddr)
	if name := certificateName(r.TLS); name != "" {
		md.Set(metadataCertificate, name)
	}
	if keys := r.Header.Values("Idempotency-Key"); len(keys) > 0 {
		md.Set(metadataIdempotencyKey, keys...)
	}
	return md
}

// allowMetadata is the whole list of what a REST call carries into a gRPC call: the
// credential, what describeCall says, and the trace that the HTTP span is part of.
func allowMetadata(ctx context.Context) context.Context {
	all, _ := metadata.FromOutgoingContext(ctx)
	allowed := metadata.MD{}
	for _, key := range []string{"authorization", metadataPeer, metadataCertificate, metadataIdempotencyKey} {
		if values := all.Get(key); len(values) > 0 {
			allowed[key] = values
		}
	}
	trace := propagation.MapCarrier{}
	otel.GetTextMapPropagator().Inject(ctx, trace)
	for key, value := range trace {
		allowed.Set(key, value)
	}
	return metadata.NewOutgoingContext(ctx, allowed)
}

type idempotencyKeysKey struct{}

// withIdempotencyKeys gives a handler the idempotency keys from the header of a REST call. A call
// without any, as nearly all are, has no context for them: it would last as long as a watch does.
func withIdempotencyKeys(ctx context.Context, keys []string) context.Context {
	if len(keys) == 0 {
		return ctx
	}
	return context.WithValue(ctx, idempotencyKeysKey{}, keys)
}

func idempotencyKeys(ctx context.Context) []string {
	keys, _ := ctx.Value(idempotencyKeysKey{}).([]string)
	return keys
}

var privateMetadata = []string{metadataPeer, metadataCertificate, metadataIdempotencyKey}

// withoutPrivateMetadata hides the private metadata from handlers, and with it what a caller of the
// public server may have written there. Where there is none, as in nearly all calls over gRPC, nothing
// is copied.
func withoutPrivateMetadata(ctx context.Context) context.Context {
	private := func(key string) bool { return metadata.ValueFromIncomingContext(ctx, key) != nil }
	if !slices.ContainsFunc(privateMetadata, private) {
		return ctx
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, key := range privateMetadata {
		md.Delete(key)
	}
	return metadata.NewIncomingContext(ctx, md)
}

// certificateName is the name of the verified client: the first URI of its
// certificate (as in SPIFFE), else its first DNS name, else its common name. A
// connection without a verified certificate has none.
func certificateName(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	leaf := state.PeerCertificates[0]
	switch {
	case len(leaf.URIs) > 0:
		return leaf.URIs[0].String()
	case len(leaf.DNSNames) > 0:
		return leaf.DNSNames[0]
	default:
		return leaf.Subject.CommonName
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
