package server

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestAConnectionTooManyIsClosedAtOnceAndOthersGoOn(t *testing.T) { // L9
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = watchUntilLeft
		s := serve(t, studio, func(c *Config) { c.Limits.Conns = 3 })
		var conns []*grpc.ClientConn
		for range 3 {
			conn := servertest.Dial(t, s.GRPCPipe)
			conns = append(conns, conn)
			if err := openWatch(t.Context(), easelv1.NewGenerationServiceClient(conn)); err != nil {
				t.Fatal(err)
			}
		}
		if err := openWatch(t.Context(), s.Generations()); status.Code(err) != codes.Unavailable {
			t.Errorf("a connection too many is answered with %v", err)
		}
		if err := openWatch(t.Context(), easelv1.NewGenerationServiceClient(conns[0])); err != nil {
			t.Errorf("a connection that stands is answered with %v", err)
		}
		if logged := s.Lines(t, "connections are closed, as there are too many"); len(logged) != 1 {
			t.Errorf("logged %v", logged)
		}
		conns[0].Close()
		synctest.Wait()
		conn := servertest.Dial(t, s.GRPCPipe)
		if err := openWatch(t.Context(), easelv1.NewGenerationServiceClient(conn)); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
		for _, c := range append(conns, conn) {
			c.Close()
		}
	})
}

func TestTheHTTPListenerHasTheSameLimit(t *testing.T) { // L9
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = watchUntilLeft
		s := serve(t, studio, func(c *Config) { c.Limits.Conns = 2 })
		ctx, leave := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		for range 2 {
			watching.Go(func() {
				_, _ = s.HTTP.Do(servertest.Request(t, http.MethodGet, "/v1/generations/g:watch", "").WithContext(ctx))
			})
		}
		synctest.Wait()
		if answer, err := s.HTTP.Do(servertest.Request(t, http.MethodGet, "/", "")); err == nil {
			t.Errorf("a connection too many is answered %s", answer.Status)
		}
		leave()
		watching.Wait()
		synctest.Wait()
		if answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/", "")); answer.StatusCode != http.StatusOK {
			t.Errorf("after they have ended it is answered %s", answer.Status)
		}
	})
}
