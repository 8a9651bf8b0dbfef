package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestConfigValidationReportsAllErrorsTogether(t *testing.T) {
	err := Config{
		GRPCAddr: "nonsense", AdminAddr: ":0", DrainTimeout: -1, TLS: TLS{CertFile: "cert.pem", ClientCAFile: "ca.pem", ClientAuth: "never"},
		Limits: Limits{ConnAge: -1},
	}.Validate()
	for _, want := range []string{
		"address of the grpc listener", `unknown client authentication "never"`, "address of the http listener", "missing service", "a certificate file and a key file",
		"drain timeout", "ConnAge:-1ns",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among the errors: %v", want, err)
		}
	}
	if err := newTestConfig(servertest.NewStudio(), func(c *Config) { c.GRPCAddr, c.AdminAddr = ":0", "[::1]:0" }).Validate(); err != nil {
		t.Errorf("a valid configuration is rejected: %v", err)
	}
}

func TestListeningAddressesAreLogged(t *testing.T) {
	logs := &servertest.Buffer{}
	server, err := New(newTestConfig(servertest.NewStudio(), func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(logs, nil)) }))
	if err != nil {
		t.Fatal(err)
	}
	if server.GRPCAddr() != "" {
		t.Errorf("before Listen the address is %q", server.GRPCAddr())
	}
	if err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{"grpc": server.GRPCAddr(), "http": server.HTTPAddr(), "admin": server.AdminAddr()} {
		if strings.HasSuffix(addr, ":0") || strings.Count(logs.String(), `"msg":"listening","server":"`+name+`","addr":"`+addr+`"`) != 1 {
			t.Errorf("%s is bound to %s; logged %s", name, addr, logs)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	answer, err := http.Get("http://" + server.HTTPAddr() + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

func TestAddressInUseLeavesNoListenerOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	server, err := New(newTestConfig(servertest.NewStudio(), func(c *Config) { c.HTTPAddr = taken.Addr().String() }))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(); err == nil || !strings.Contains(err.Error(), "listen for http") {
		t.Errorf("Listen returned %v", err)
	}
	if server.GRPCAddr() != "" {
		t.Errorf("%s is still bound", server.GRPCAddr())
	}
}

func TestUnknownMethodsCreateNoSpans(t *testing.T) {
	exporter := servertest.RecordSpans(t)
	s := serve(t, servertest.NewStudio())
	err := s.GRPC.Invoke(t.Context(), "/made.up/Method", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
	servertest.WantError(t, err, codes.Unimplemented, "UNIMPLEMENTED")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if spans := exporter.GetSpans(); len(spans) != 0 {
		t.Errorf("got the spans %v, want none", spans)
	}
}
