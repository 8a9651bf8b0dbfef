package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestStartupLogReflectsSettings(t *testing.T) {
	for name, test := range map[string]struct {
		settings serveCmd
		want     map[string]any
	}{
		"forwarded API keys": {serveCmd{UpstreamURL: "https://catalog.example/api", ledgerFlags: ledgerFlags{"memory"}, listenFlags: listenFlags{GRPCAddr: "localhost:1", HTTPAddr: "127.0.0.1:2"}}, map[string]any{
			"upstream": "catalog.example", "api_key": "forwarded", "callers": "own_api_keys", "ledger": "memory", "durable": false, "ledger_means": ledger.Meaning("memory"), "tls": false, "client_certificates": "none",
		}},
		"listed callers": {serveCmd{UpstreamKeyFile: "key", CallersFile: "callers", ledgerFlags: ledgerFlags{"postgres://me:hunter2@db/easel"}}, map[string]any{
			"api_key": "shared", "callers": "listed", "ledger": "postgres", "durable": true,
		}},
		"client certificates": {serveCmd{UpstreamKeyFile: "key", TLSClientCAFile: "ca", TLSClientAuth: "verify_if_given"}, map[string]any{
			"callers": "certified", "client_certificates": "verify_if_given",
		}},
		"anonymous callers": {serveCmd{UpstreamKeyFile: "key", AllowAnonymous: true, listenFlags: listenFlags{HTTPAllowedHosts: []string{"easel.example"}}, TLSCertFile: "cert", TLSClientCAFile: "ca", ledgerFlags: ledgerFlags{"sqlite:book"}}, map[string]any{
			"version": thisBuild().Version, "callers": "anonymous", "ledger": "sqlite", "tls": true, "client_certificates": "require", "telemetry": "none",
		}},
		"callers on this machine": {serveCmd{UpstreamKeyFile: "key"}, map[string]any{"callers": "loopback"}},
	} {
		var log bytes.Buffer
		test.settings.logInForce(slog.New(slog.NewJSONHandler(&log, nil)), nil)
		var fields map[string]any
		if err := json.Unmarshal(log.Bytes(), &fields); err != nil || strings.Contains(log.String(), "hunter2") {
			t.Fatalf("%s: %v: %s", name, err, log.String())
		}
		maps.DeleteFunc(fields, func(field string, value any) bool { _, wanted := test.want[field]; return !wanted })
		if !maps.Equal(fields, test.want) {
			t.Errorf("%s: got %v, want %v", name, fields, test.want)
		}
	}
}

func TestRiskySettingsAreLoggedAsWarnings(t *testing.T) {
	known, err := auth.LoadCallers(proctest.File(t, "callers: [{name: poster}]\n"), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	everywhere, here := listenFlags{GRPCAddr: ":1", HTTPAddr: "127.0.0.1:2"}, listenFlags{GRPCAddr: "localhost:1", HTTPAddr: "127.0.0.1:2"}
	for name, row := range map[string]struct {
		settings serveCmd
		known    *auth.Callers
		want     string
	}{
		"API keys without TLS":                             {serveCmd{listenFlags: everywhere}, nil, "callers on other machines send their API keys unencrypted"},
		"API keys over loopback":                           {serveCmd{listenFlags: here}, nil, ""},
		"API keys over TLS":                                {serveCmd{listenFlags: everywhere, TLSCertFile: "cert"}, nil, ""},
		"a caller without a limit":                         {serveCmd{listenFlags: here, UpstreamKeyFile: "key"}, known, `"callers without budget","callers":"poster","hint":"set a budget`},
		"a caller without a limit, with a sandbox API key": {serveCmd{listenFlags: here, devKey: "key"}, known, ""},
	} {
		var log bytes.Buffer
		row.settings.logInForce(slog.New(slog.NewJSONHandler(&log, nil)), row.known)
		if n := strings.Count(log.String(), `"WARN"`); n > 1 || (n == 1) != (row.want != "") || !strings.Contains(log.String(), row.want) {
			t.Errorf("%s: %s", name, log.String())
		}
	}
}
