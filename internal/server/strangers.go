package server

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/service"
)

// refusalLines is the maximum number of log lines per second about unauthenticated clients. These lines report rejected calls and
// failed TLS handshakes.
const refusalLines = 100

var errUnknownMethod = service.Fail(easelv1.ErrorReason_UNIMPLEMENTED, "unknown method; the server is older than the caller's stubs, or the name is wrong")

// rejectStrangers rejects a call if its credential is missing or cannot be valid. It runs before the call's message is read. It
// must be fast, because it blocks all calls on the connection.
func (c *chain) rejectStrangers(ctx context.Context, info *tap.Info) (context.Context, error) {
	if _, known := c.methods[info.FullMethodName]; !known {
		return nil, service.Status(errUnknownMethod).Err()
	}
	if err := c.admit(ctx, info.FullMethodName, originOfPeer(ctx)); err != nil {
		return nil, err
	}
	return ctx, nil
}

// admit rejects a call if its credential is missing or cannot be valid. It measures and logs the rejection, but creates no
// span.
func (c *chain) admit(ctx context.Context, method string, from origin) error {
	if isPublic(method) {
		return nil
	}
	err := auth.ErrUncertified
	if c.stillVerified(from.tls) {
		err = c.service.Admit(ctx, c.certificate(from.tls))
	} else {
		from.disconnect() // the connection is closed, because the client can send a new certificate only on a new connection
	}
	if err == nil {
		return nil
	}
	call := &call{chain: c, method: method, origin: from, start: time.Now(), ctx: ctx}
	refusal := call.fail(err)
	measured := c.tracing.refusals.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method})
	c.tracing.refusals.HandleRPC(measured, &stats.Begin{BeginTime: call.start})
	c.tracing.refusals.HandleRPC(measured, &stats.End{BeginTime: call.start, EndTime: time.Now(), Error: refusal})
	if c.refusals.Allow() {
		call.writeLog(refusal)
	}
	return refusal
}

// Admit rejects a REST request if its credential is missing or cannot be valid. It must be called before the body is read.
func (l *Local) Admit(r *http.Request, method string) error {
	ctx := metadata.NewIncomingContext(r.Context(), metadata.MD{"authorization": r.Header.Values("Authorization")})
	return l.chain.admit(ctx, method, origin{peer: r.RemoteAddr, tls: r.TLS, disconnect: func() {}})
}
