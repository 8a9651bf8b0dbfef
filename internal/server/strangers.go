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

// refusalLines is the maximum number of log lines a second about refused strangers.
const refusalLines = 100

var errUnknownMethod = service.Fail(easelv1.ErrorReason_UNIMPLEMENTED, "this server has no such call: it is older than the caller's stubs, or its name is wrong")

// tap refuses strangers before their message is read. It runs on the goroutine of the connection, so it only looks at maps.
func (c *chain) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if _, known := c.methods[info.FullMethodName]; !known {
		return nil, service.Status(errUnknownMethod).Err()
	}
	if err := c.admit(ctx, info.FullMethodName, originOfPeer(ctx)); err != nil {
		return nil, err
	}
	return ctx, nil
}

// admit refuses a call without a credential that may be one. A refusal has a measurement and a line in the log.
func (c *chain) admit(ctx context.Context, method string, from origin) error {
	if public(method) {
		return nil
	}
	err := auth.ErrUncertified
	if c.stillVerified(from.tls) {
		err = c.service.Admit(ctx, c.certificate(from.tls))
	} else {
		from.disconnect() // a newer certificate needs a new connection
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
		call.log(refusal)
	}
	return refusal
}

// Admit refuses a REST request without a credential that may be one, before its body is read.
func (l *Local) Admit(r *http.Request, method string) error {
	ctx := metadata.NewIncomingContext(r.Context(), metadata.MD{"authorization": r.Header.Values("Authorization")})
	return l.chain.admit(ctx, method, origin{peer: r.RemoteAddr, tls: r.TLS, disconnect: func() {}})
}
