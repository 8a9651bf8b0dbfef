package server

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestListenersHaveALimitOfConnections(t *testing.T) {
	const limit = 3
	for name, row := range map[string]struct {
		max  int
		pipe func(*site) *proctest.Pipe
	}{
		"gRPC":  {limit, func(s *site) *proctest.Pipe { return s.GRPCPipe }},
		"HTTP":  {limit, func(s *site) *proctest.Pipe { return s.HTTPPipe }},
		"admin": {operatorConns, func(s *site) *proctest.Pipe { return s.AdminPipe }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio(), func(c *Config) { c.Limits.Conns = limit })
				dial := func() net.Conn {
					t.Helper()
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					conn, err := row.pipe(s).DialContext(ctx)
					if err != nil {
						return nil
					}
					t.Cleanup(func() { conn.Close() })
					return conn
				}
				var first net.Conn
				for n := range row.max {
					conn := dial()
					if conn == nil {
						t.Fatalf("connection %d is not accepted", n+1)
					}
					if n == 0 {
						first = conn
					}
				}
				if dial() != nil {
					t.Error("one connection too many is accepted")
				}
				first.Close()
				synctest.Wait()
				if dial() == nil {
					t.Error("after one has ended, the next is not accepted")
				}
			})
		})
	}
}
