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

	"github.com/easel-grpc/easel/internal/service"
)

// What Local says of a REST call, beside the call's own metadata. Only the gRPC server in memory reads
// these names, and no handler ever sees them. They end in -bin so that any bytes get through.
const (
	metadataPeer           = "easel-rest-peer-bin"
	metadataCertificate    = "easel-rest-certificate-bin"
	metadataCommonName     = "easel-rest-common-name-bin"
	metadataIdempotencyKey = "easel-rest-idempotency-key-bin"
)

// origin is who makes a call.
type origin struct {
	peer        string              // network address, for logs
	certificate service.Certificate // the verified one of the client
	conn        *countedConn        // nil for a REST call
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
		from.certificate = certificate(&info.State)
	}
	return from
}

// restOrigin reads the origin that describeCall wrote.
func restOrigin(ctx context.Context) origin {
	return origin{
		peer: first(metadata.ValueFromIncomingContext(ctx, metadataPeer)),
		certificate: service.Certificate{
			Names:      metadata.ValueFromIncomingContext(ctx, metadataCertificate),
			CommonName: first(metadata.ValueFromIncomingContext(ctx, metadataCommonName)),
		},
		idempotencyKeys: metadata.ValueFromIncomingContext(ctx, metadataIdempotencyKey),
	}
}

// describeCall writes what restOrigin reads.
func describeCall(r *http.Request) metadata.MD {
	md := metadata.Pairs(metadataPeer, r.RemoteAddr)
	client := certificate(r.TLS)
	if len(client.Names) > 0 {
		md.Set(metadataCertificate, client.Names...)
	}
	if client.CommonName != "" {
		md.Set(metadataCommonName, client.CommonName)
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
	for _, key := range []string{"authorization", metadataPeer, metadataCertificate, metadataCommonName, metadataIdempotencyKey} {
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

var privateMetadata = []string{metadataPeer, metadataCertificate, metadataCommonName, metadataIdempotencyKey}

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

// certificate is that of the verified client. A connection without a verified certificate has none.
func certificate(state *tls.ConnectionState) (client service.Certificate) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return client
	}
	leaf := state.PeerCertificates[0]
	for _, uri := range leaf.URIs {
		client.Names = append(client.Names, uri.String())
	}
	client.Names = append(client.Names, leaf.DNSNames...)
	client.CommonName = leaf.Subject.CommonName
	return client
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
