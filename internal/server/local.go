package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
)

// Sizes for the in-memory connection, in bytes. All REST calls share this connection.
const (
	localPipe         = 256 << 10 // size of the pipe's buffer
	localStreamWindow = 128 << 10 // maximum number of unread bytes of one REST call; without a fixed size, the window can grow to several MiB
	localConnWindow   = 16 << 20  // maximum number of unread bytes of all REST calls together
	localResponse     = 4 << 20   // maximum size of one response message
)

// Metadata keys of an in-memory call. Only the in-memory gRPC server reads them.
const (
	metadataPeer           = "easel-rest-peer"
	metadataCertificates   = "easel-rest-certificates-bin"
	metadataIdempotencyKey = "easel-rest-idempotency-key-bin"
)

// Local is the in-memory connection over which REST requests reach the in-memory gRPC server.
type Local struct {
	*grpc.ClientConn
	chain *chain
}

func newLocal(pipe *bufconn.Listener, chain *chain) (*Local, error) {
	conn, err := grpc.NewClient("passthrough:///easel",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(localStreamWindow),
		grpc.WithStaticConnWindowSize(localConnWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(localResponse)),
		grpc.WithDisableRetry(), // the callers of this server decide whether to retry
		grpc.WithIdleTimeout(0),
	)
	return &Local{conn, chain}, err
}

// Metadata returns the metadata of the call for a REST request: its trace context and its origin. The gateway adds the
// credential.
func (l *Local) Metadata(ctx context.Context, r *http.Request) metadata.MD {
	trace := propagation.MapCarrier{}
	otel.GetTextMapPropagator().Inject(ctx, trace)
	md := metadata.New(trace)
	md.Set(metadataPeer, r.RemoteAddr)
	md.Set(metadataIdempotencyKey, r.Header.Values("Idempotency-Key")...)
	if r.TLS != nil {
		for _, certificate := range r.TLS.PeerCertificates {
			md.Append(metadataCertificates, string(certificate.Raw))
		}
	}
	return md
}

// originOfRequest returns the origin of the REST request that a call was converted from.
func (c *chain) originOfRequest(ctx context.Context) origin {
	from := origin{idempotencyKeys: metadata.ValueFromIncomingContext(ctx, metadataIdempotencyKey), disconnect: func() {}}
	for _, peer := range metadata.ValueFromIncomingContext(ctx, metadataPeer) {
		from.peer = peer
	}
	if chain := metadata.ValueFromIncomingContext(ctx, metadataCertificates); len(chain) > 0 {
		from.tls = c.tlsState(chain)
	}
	return from
}

// tlsState returns the TLS state of a REST client. rawChain is the client's certificate chain, which the HTTP listener has
// verified in the handshake. If the chain is no longer valid, the state still contains it, so that stillVerified returns
// false for the state.
func (c *chain) tlsState(rawChain []string) *tls.ConnectionState {
	state := &tls.ConnectionState{}
	intermediates := x509.NewCertPool()
	for _, der := range rawChain {
		certificate, err := x509.ParseCertificate([]byte(der))
		if err != nil {
			return nil
		}
		state.PeerCertificates = append(state.PeerCertificates, certificate)
		intermediates.AddCert(certificate)
	}
	state.VerifiedChains, _ = state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: c.certificates.Known().ClientCAs, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if len(state.VerifiedChains) == 0 {
		state.VerifiedChains = [][]*x509.Certificate{state.PeerCertificates} // an invalid chain, so that stillVerified rejects the state
	}
	return state
}

// Call runs a call through l.chain without the in-memory connection. serveCall replaces the gRPC handler. For each message
// that it sends, serveCall must pass the number of result bytes in the message to countBytes. The outgoing metadata of ctx is
// the metadata of the call, as in a gRPC client.
func (l *Local) Call(ctx context.Context, method string, req proto.Message, serveCall func(ctx context.Context, countBytes func(bytes int)) error) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	measured := statsHandler{l.chain, l.chain.originOfRequest}
	ctx = measured.TagRPC(metadata.NewIncomingContext(ctx, md), &stats.RPCTagInfo{FullMethodName: method})
	c := callOf(ctx)
	err := c.run(ctx, func(ctx context.Context) error {
		if err := c.checkRequest(req); err != nil {
			return err
		}
		return serveCall(ctx, c.countMessage)
	})
	measured.HandleRPC(ctx, &stats.End{BeginTime: c.start, EndTime: time.Now(), Error: err})
	return err
}

// MaxBody returns the maximum size of a request body, in bytes.
func (l *Local) MaxBody() int64 { return int64(l.chain.maxMessage) }
