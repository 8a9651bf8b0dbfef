package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestHealthWatchesOfTenAddressesKeepNoOtherOut(t *testing.T) { // D4
	d := newTestDoor(16)
	enter := func(method, address string) error {
		d.methods[method] = grpc.MethodInfo{}
		_, err := d.enter(t.Context(), &call{door: d, method: method, peer: address + ":1"})
		return err
	}
	const watch, check = grpc_health_v1.Health_Watch_FullMethodName, grpc_health_v1.Health_Check_FullMethodName
	for address := range publicCalls / addressCalls {
		for range addressCalls {
			if err := enter(watch, fmt.Sprint("10.0.0.", address)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := enter(watch, "10.0.0.1"); reasonOf(err) != easelv1.ErrorReason_OVERLOADED {
		t.Errorf("one watch more than an address may have: %v", err)
	}
	for _, method := range []string{watch, check} {
		if err := enter(method, "10.0.1.1"); err != nil {
			t.Errorf("%s of an address that has none: %v", method, err)
		}
	}
	for n := range addressCalls {
		if err := enter(check, "10.0.1.1"); (err != nil) != (n == addressCalls-1) {
			t.Errorf("check %d of an address: %v", n+2, err)
		}
	}
}

func TestAHealthWatchEndsAtItsHighestAge(t *testing.T) { // D4
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		stream, err := grpc_health_v1.NewHealthClient(s.GRPC).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for err == nil {
			_, err = stream.Recv()
		}
		servertest.WantError(t, err, codes.Unavailable, "STREAM_MAX_AGE")
		if age := time.Since(began); age != 2*(Limits{}).connAge() {
			t.Errorf("it ends after %v", age)
		}
	})
}

func TestTheAddressesOfOperatorsHaveALimitOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		var ended atomic.Int64
		for range operatorConnsOfAddress + 3 {
			conn, err := s.AdminPipe.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() {
				if _, err := conn.Read(make([]byte, 1)); err != nil {
					ended.Add(1)
				}
			}()
			synctest.Wait()
		}
		if n := ended.Load(); n != 3 {
			t.Errorf("%d connections too many are closed, want 3", n)
		}
	})
}

// askedConn is a connection to the admin address with a request, which is answered at once or held.
func askedConn(t *testing.T, s *site, authorization string, answered bool) (ended *atomic.Bool) {
	t.Helper()
	conn, err := s.AdminPipe.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	path := "/answered"
	if !answered {
		path = "/held"
	}
	if authorization != "" {
		authorization = "Authorization: " + authorization + "\r\n"
	}
	go func() {
		_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n"+authorization+"\r\n")
	}()
	ended = &atomic.Bool{}
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		ended.Store(true)
	}()
	synctest.Wait()
	return ended
}

func TestANewConnectionOfAnOperatorTakesNoRequestAndNoProofAway(t *testing.T) {
	for name, test := range map[string]struct {
		authorization string
		answered      bool // its request
		busy          bool // all others have a request
		ended         bool
	}{
		"that has had an answer":         {ended: true, answered: true},
		"of a forger":                    {authorization: "Bearer forged", answered: true, ended: true},
		"of an operator":                 {authorization: "Bearer ada", answered: true},
		"with a request":                 {},
		"with a request, where all have": {busy: true, ended: true},
		"of an operator, where all have": {authorization: "Bearer ada", answered: true, busy: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := make(chan struct{})
				s := serve(t, servertest.NewStudio(), func(c *Config) {
					c.Admin = func(*Server) (http.Handler, func()) {
						prove := ProveOperators(func(_ context.Context, authorization []string) (string, error) {
							if slices.Equal(authorization, []string{"Bearer ada"}) {
								return "ada", nil
							}
							return "", errors.New("nobody")
						})
						return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
							_, _ = prove(r.Context(), r.Header.Values("Authorization"))
							if r.URL.Path == "/held" {
								<-over
							}
						}), func() {}
					}
				})
				defer close(over)
				first := askedConn(t, s, test.authorization, test.answered)
				for range operatorConnsOfAddress - 1 {
					askedConn(t, s, "", !test.busy)
				}
				if first.Load() {
					t.Fatal("it is closed where there is room")
				}
				askedConn(t, s, "", true)
				if first.Load() != test.ended {
					t.Errorf("it is closed: %v", first.Load())
				}
			})
		})
	}
}
