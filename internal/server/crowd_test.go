package server

import (
	"fmt"
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
