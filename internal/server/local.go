package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
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
	// localResponse is the largest response that is turned into JSON.
	localResponse = 64 << 20
)

// Local is the way into the server from within its process, for the REST form of the contract. It is a
// connection in memory to a gRPC server that has the interceptor of the public one.
type Local struct {
	grpc.ClientConnInterface
	conn  *grpc.ClientConn // the same
	calls *interceptor
	// bodyLimit is how many bytes a body may have.
	bodyLimit int
}

func newLocal(pipe *bufconn.Listener, calls *interceptor, bodyLimit int) (*Local, error) {
	conn, err := grpc.NewClient("passthrough:///easel",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(allowMetadataUnary),
		grpc.WithStreamInterceptor(allowMetadataStream),
		grpc.WithStaticStreamWindowSize(localStreamWindow),
		grpc.WithStaticConnWindowSize(localConnWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(localResponse)),
		grpc.WithDisableRetry(), // every attempt is the caller's own
		grpc.WithIdleTimeout(0),
	)
	return &Local{conn, conn, calls, bodyLimit}, err
}

func allowMetadataUnary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(allowMetadata(ctx), method, req, reply, conn, opts...)
}

func allowMetadataStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return stream(allowMetadata(ctx), desc, conn, method, opts...)
}

// Metadata says who makes a request. The server believes it from this connection alone.
func (l *Local) Metadata(_ context.Context, r *http.Request) metadata.MD { return describeCall(r) }

// Authenticate decides by the headers of a request whether it may be made. The call that the request
// becomes decides it again.
func (l *Local) Authenticate(r *http.Request) (context.Context, error) {
	md := metadata.MD{"authorization": r.Header.Values("Authorization")}
	return l.calls.service.Authenticate(metadata.NewIncomingContext(r.Context(), md), certificate(r.TLS))
}

// ReadBody reads the body of a request for a method, within its time and the budget of bytes. ctx is
// that of Authenticate. release gives the bytes back, when the call has ended or lets the body go.
func (l *Local) ReadBody(ctx context.Context, w http.ResponseWriter, r *http.Request, method string) (body []byte, release func(), err error) {
	held := l.calls.admission.bytes.of(l.calls.admission.owner(ctx, method))
	body, err = readHeld(http.MaxBytesReader(w, r.Body, int64(l.bodyLimit)), l.bodyLimit, &held)
	if err != nil {
		held.release()
		return nil, nil, l.unreadableBody(err)
	}
	// The answer may take longer than the body did. A refused request keeps its deadline: the standard
	// library reads the remainder of a body before it releases the connection.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as in limitReads
	if err := held.keep(len(body)); err != nil {
		held.release()
		return nil, nil, err
	}
	return body, held.release, nil
}

// readHeld reads a body of at most limit bytes, and never into more memory than the budget has given.
func readHeld(body io.Reader, limit int, held *heldBytes) (all []byte, err error) {
	for {
		if len(all) == cap(all) {
			size := min(max(2*len(all), 4<<10), limit+1) // one more, to see the end
			if err := held.set(size); err != nil {
				return nil, err
			}
			all = append(make([]byte, 0, size), all...)
		}
		n, err := body.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// unreadableBody is the error of a body that could not be read.
func (l *Local) unreadableBody(err error) error {
	if own, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return own // the budget is used up
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return service.Fail(easelv1.ErrorReason_REQUEST_TOO_LARGE, fmt.Sprintf("the body is larger than %d bytes", l.bodyLimit))
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return errSlowRequest
	}
	return service.InvalidRequest(service.Violation{Description: "the body can't be read"})
}

// Call makes a call whose answer does not go through the connection: handle takes the place of the
// handler of a gRPC call, and reports to sent how many bytes of a result each message had. ctx is that of
// a client.
func (l *Local) Call(ctx context.Context, method string, req proto.Message, handle func(ctx context.Context, sent func(bytes int)) error) error {
	md, _ := metadata.FromOutgoingContext(allowMetadata(ctx))
	ctx = l.calls.stats.TagRPC(metadata.NewIncomingContext(ctx, md), &stats.RPCTagInfo{FullMethodName: method})
	began := time.Now()
	err := l.calls.around(ctx, method, true, func(ctx context.Context, c *call) error {
		if err := c.enter(ctx, req); err != nil {
			return err
		}
		return handle(ctx, c.span.message)
	})
	l.calls.stats.HandleRPC(ctx, &stats.End{BeginTime: began, EndTime: time.Now(), Error: err})
	return err
}
