package server

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAConnectionTooManyIsClosedAtOnceAndOthersGoOn(t *testing.T) { // L9
	synctest.Test(t, func(t *testing.T) {
		studio := newStudio()
		studio.watch = watchUntilLeft
		s := serve(t, studio, func(c *Config) { c.Limits.Conns = 3 })
		var conns []*grpc.ClientConn
		for range 3 {
			conn := dial(t, s.grpcPipe)
			conns = append(conns, conn)
			if err := openWatch(t.Context(), easelv1.NewGenerationServiceClient(conn)); err != nil {
				t.Fatal(err)
			}
		}
		if err := openWatch(t.Context(), s.generations()); status.Code(err) != codes.Unavailable {
			t.Errorf("a connection too many is answered with %v", err)
		}
		if err := openWatch(t.Context(), easelv1.NewGenerationServiceClient(conns[0])); err != nil {
			t.Errorf("a connection that stands is answered with %v", err)
		}
		if logged := s.lines(t, "connections are closed at once, as there are too many"); len(logged) != 1 {
			t.Errorf("logged %v", logged)
		}
		conns[0].Close()
		synctest.Wait()
		conn := dial(t, s.grpcPipe)
		if err := openWatch(t.Context(), easelv1.NewGenerationServiceClient(conn)); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
		for _, c := range append(conns, conn) {
			c.Close()
		}
	})
}

func TestTheHTTPListenerHasTheSameRoom(t *testing.T) { // L9
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, newStudio(), func(c *Config) { c.Limits.Conns = 2 })
		var silent []net.Conn
		for range 2 {
			conn, err := s.httpPipe.Dial()
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, conn)
		}
		if answer, err := s.http.Do(request(t, http.MethodGet, "/", "")); err == nil {
			t.Errorf("a connection too many is answered %s", answer.Status)
		}
		for _, conn := range silent {
			conn.Close()
		}
		synctest.Wait()
		if answer, _ := do(t, s.http, request(t, http.MethodGet, "/", "")); answer.StatusCode != http.StatusOK {
			t.Errorf("after they have ended it is answered %s", answer.Status)
		}
	})
}
