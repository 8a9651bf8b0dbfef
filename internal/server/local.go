package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// Sizes of the connection in memory.
const (
	// localPipe is the buffer size in bytes of the in-memory connection, which all REST calls share.
	localPipe = 256 << 10
	// localStreamWindow is the number of bytes that the server may send ahead of one slow REST client.
	// A window that the library sizes by itself grows to megabytes here.
	localStreamWindow = 128 << 10
	// localConnWindow is the same for all REST clients together.
	localConnWindow = 16 << 20
	// localResponse is the size of the largest response.
	localResponse = 4 << 20
)

// Metadata of a call in memory. Only the gRPC server in memory reads it.
const (
	metadataPeer           = "easel-rest-peer"
	metadataCertificates   = "easel-rest-certificates-bin"
	metadataIdempotencyKey = "easel-rest-idempotency-key-bin"
)

// Local is a connection in memory to a gRPC server with the chain of the public one, for the REST form of the contract.
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
		grpc.WithDisableRetry(), // every attempt is the caller's own
		grpc.WithIdleTimeout(0),
	)
	return &Local{conn, chain}, err
}

// Metadata returns the metadata of the call that a request becomes: its trace, and where it comes from. The gateway adds the
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

// originOfRequest returns the origin of a call in memory: that of its REST request.
func (c *chain) originOfRequest(ctx context.Context) origin {
	from := origin{idempotencyKeys: metadata.ValueFromIncomingContext(ctx, metadataIdempotencyKey), disconnect: func() {}}
	for _, peer := range metadata.ValueFromIncomingContext(ctx, metadataPeer) {
		from.peer = peer
	}
	if chain := metadata.ValueFromIncomingContext(ctx, metadataCertificates); len(chain) > 0 {
		from.tls = c.verified(chain)
	}
	return from
}

// verified returns the state of a connection whose client has shown certificates. The HTTP listener has verified them once;
// without a chain to a current authority, the state has no valid chain.
func (c *chain) verified(raw []string) *tls.ConnectionState {
	state := &tls.ConnectionState{}
	intermediates := x509.NewCertPool()
	for _, der := range raw {
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
		state.VerifiedChains = [][]*x509.Certificate{state.PeerCertificates} // no longer verified, as stillVerified finds
	}
	return state
}

// Call runs a call whose response does not pass the connection. handle replaces the handler of a gRPC call, and reports the
// bytes of a result in each message to sent. ctx is the context of a client.
func (l *Local) Call(ctx context.Context, method string, req proto.Message, handle func(ctx context.Context, sent func(bytes int)) error) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	measured := statsHandler{l.chain, l.chain.originOfRequest}
	ctx = measured.TagRPC(metadata.NewIncomingContext(ctx, md), &stats.RPCTagInfo{FullMethodName: method})
	c := callOf(ctx)
	err := c.run(ctx, func(ctx context.Context) error {
		if err := c.check(req); err != nil {
			return err
		}
		return handle(ctx, c.sent)
	})
	measured.HandleRPC(ctx, &stats.End{BeginTime: c.start, EndTime: time.Now(), Error: err})
	return err
}

// ReadBody reads the body of a request, within its time.
func (l *Local) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(l.chain.maxMessage)))
	if err != nil {
		return nil, unreadableBody(err)
	}
	// The answer may take longer than the body did. A refused request keeps its deadline: the standard
	// library reads the remainder of a body before it releases the connection.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as in limitReads
	return body, nil
}

// unreadableBody is the error of a body that could not be read.
func unreadableBody(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return service.Fail(easelv1.ErrorReason_REQUEST_TOO_LARGE, fmt.Sprintf("the body is larger than %d bytes; send a smaller one", large.Limit))
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return service.Fail(easelv1.ErrorReason_REQUEST_BODY_TIMEOUT, fmt.Sprintf("the request did not arrive within %v", requestTimeout))
	}
	return service.InvalidRequest(service.Violation{Description: "the body can't be read"})
}
