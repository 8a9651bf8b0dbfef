package server

import (
	"context"
	"crypto/tls"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/easel-grpc/easel/internal/service"
)

// metadataCall names the REST request that a call in memory is made for. Only the gRPC server in memory believes it.
const metadataCall = "easel-rest-request"

// allowMetadata is the whole list of what a REST call carries into a gRPC call: the
// credential, the request that it is made for, and the trace that the HTTP span is part of.
func allowMetadata(ctx context.Context) context.Context {
	all, _ := metadata.FromOutgoingContext(ctx)
	allowed := metadata.MD{}
	for _, key := range []string{"authorization", metadataCall} {
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

// peerCertificate is that of the verified client of a connection.
func peerCertificate(p *peer.Peer) service.Certificate {
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return service.Certificate{}
	}
	return certificate(&info.State)
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
