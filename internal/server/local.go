package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// Sizes of the connection in memory.
const (
	// localPipe is how many bytes may be under way in memory, for all REST calls together.
	localPipe = 256 << 10
	// localStreamWindow is how many bytes the server may send ahead of one slow REST client.
	// A window that the library sizes by itself grows to megabytes here.
	localStreamWindow = 128 << 10
	// localConnWindow is the same for all of them together.
	localConnWindow = 16 << 20
	// localResponse is the largest response, and largeResponse is from where on one is decoded late.
	localResponse = 4 << 20
	largeResponse = 64 << 10
)

// Local is the way into the server from within its process, for the REST form of the contract. It is a
// connection in memory to a gRPC server that has the door of the public one.
type Local struct {
	*grpc.ClientConn
	door *door
}

func newLocal(pipe *bufconn.Listener, door *door) (*Local, error) {
	conn, err := grpc.NewClient("passthrough:///easel",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(localStreamWindow),
		grpc.WithStaticConnWindowSize(localConnWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(localResponse), grpc.ForceCodecV2(lateCodec{newCodec().CodecV2})),
		grpc.WithDisableRetry(), // every attempt is the caller's own
		grpc.WithIdleTimeout(0),
	)
	return &Local{conn, door}, err
}

// requestKey is where the context of a request that was let in says which it is.
type requestKey struct{}

// Enter lets a request in that is to become a call of a method, or says why not. The request that it gives knows so, and
// holds its place until leave, which is told why no call was made of it, where none was.
func (l *Local) Enter(r *http.Request, method string) (in *http.Request, leave func(refused error), err error) {
	c := &call{
		door: l.door, method: method, peer: r.RemoteAddr, certificate: l.door.certificate(r.TLS), uncertified: !l.door.stillVerified(r.TLS),
		arrived: limitedConnOf(r.Context()), idempotencyKeys: r.Header.Values("Idempotency-Key"), start: time.Now(),
	}
	if v := visitOf(r.Context()); v != nil && c.uncertified {
		v.Header().Set("Connection", "close") // a client that has a newer certificate may come back with it
	}
	ctx := metadata.NewIncomingContext(r.Context(), metadata.MD{"authorization": r.Header.Values("Authorization")})
	ctx, err = l.door.enter(ctx, c)
	if err == nil {
		err = c.admit(ctx)
	}
	if err != nil {
		return nil, nil, l.door.refuse(ctx, c, err)
	}
	id, release := l.door.remember(c), visitOf(ctx).hold()
	return r.WithContext(context.WithValue(ctx, requestKey{}, id)), func(refused error) {
		release()
		if !l.door.forget(id) {
			_ = l.door.refuse(ctx, c, cmp.Or(refused, errPanicked)) // it has been answered
		}
		c.count(-1, 0)
	}, nil
}

// EnterPage lets a request for a page in, which needs no credential, or says why not. It holds its place until leave.
func (l *Local) EnterPage(r *http.Request) (leave func(), err error) {
	s, err := l.door.pages.take(host(r.RemoteAddr), 1)
	if err != nil {
		return nil, service.Status(err).Err()
	}
	release := visitOf(r.Context()).hold()
	return func() { release(); s.leave() }, nil
}

// remember knows a request by its id until forget, which reports whether its call was made.
func (d *door) remember(c *call) (id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	id = strconv.FormatUint(d.last, 10)
	d.requests[id] = c
	return id
}

func (d *door) forget(id string) (begun bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	begun = d.requests[id].begun
	delete(d.requests, id)
	return begun
}

// Metadata says which request a call is made for, and the trace that it is part of. The gateway adds the credential; the
// server believes it from this connection alone.
func (l *Local) Metadata(ctx context.Context, _ *http.Request) metadata.MD {
	id, _ := ctx.Value(requestKey{}).(string)
	trace := propagation.MapCarrier{metadataCall: id}
	otel.GetTextMapPropagator().Inject(ctx, trace)
	return metadata.New(trace)
}

// ReadBody reads the body of a request that was let in, within its time.
func (l *Local) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, messageBytes))
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
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return service.Fail(easelv1.ErrorReason_REQUEST_TOO_LARGE, fmt.Sprintf("the body is larger than %d bytes", messageBytes))
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return slowRequest(requestTimeout)
	}
	return service.InvalidRequest(service.Violation{Description: "the body can't be read"})
}

// Call makes a call whose answer does not go through the connection: handle takes the place of the
// handler of a gRPC call, and reports to sent how many bytes of a result each message had. ctx is that of
// a client.
func (l *Local) Call(ctx context.Context, method string, req proto.Message, handle func(ctx context.Context, sent func(bytes int)) error) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx, err := l.door.tapLocal(metadata.NewIncomingContext(ctx, md), &tap.Info{FullMethodName: method})
	if err != nil {
		return err
	}
	c := callOf(ctx)
	ctx = l.door.TagRPC(ctx, nil)
	err = c.run(ctx, func() error {
		if err := c.check(ctx, req); err != nil {
			return err
		}
		return handle(ctx, c.span.message)
	})
	l.door.HandleRPC(ctx, &stats.End{BeginTime: c.start, EndTime: time.Now(), Error: err})
	return err
}

// metadataCall names the REST request that a call in memory is made for. Only the gRPC server in memory believes it.
const metadataCall = "easel-rest-request"

// tlsState is that of a connection; nil without TLS.
func tlsState(p *peer.Peer) *tls.ConnectionState {
	switch info := p.AuthInfo.(type) {
	case credentials.TLSInfo:
		return &info.State
	}
	return nil
}
