package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestOneLineOfTheStartTellsWhatIsInForce(t *testing.T) {
	cert, key := proctest.Certificate(t, "easel")
	shared := startHeldServer(t, map[string]string{
		"EASEL_ALLOW_ANONYMOUS": "true", "EASEL_LEDGER_URL": "sqlite:" + filepath.Join(t.TempDir(), "book.db"),
		"EASEL_TLS_CERT_FILE": cert, "EASEL_TLS_KEY_FILE": key, "EASEL_TLS_CLIENT_CA_FILE": cert,
	})
	shared.stop()
	found := 0
	for line := range strings.Lines(shared.stderr.String()) {
		if strings.Contains(line, "hunter2") {
			t.Errorf("a password is logged: %s", line)
		}
		if !strings.Contains(line, `"msg":"in force"`) {
			continue
		}
		found++
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"version": thisBuild().Version, "api_key": "shared", "callers": "anybody", "ledger": "sqlite", "tls": true,
			"client_certificates": "require", "telemetry": "none",
		}
		for name, value := range want {
			if fields[name] != value {
				t.Errorf("%s is %v, want %v", name, fields[name], value)
			}
		}
		if host, _ := fields["upstream"].(string); !strings.HasPrefix(host, "127.0.0.1:") {
			t.Errorf("the catalog is %v", fields["upstream"])
		}
	}
	if found != 1 {
		t.Errorf("it is logged %d times", found)
	}
}

func TestWhatIsInForceFollowsTheSettings(t *testing.T) {
	for name, test := range map[string]struct {
		settings serveCmd
		want     map[string]any
	}{
		"forwarded": {serveCmd{UpstreamURL: "https://catalog.example/api", ledgerFlags: ledgerFlags{"memory"}, listenFlags: listenFlags{GRPCAddr: "localhost:1", HTTPAddr: "127.0.0.1:2"}}, map[string]any{
			"upstream": "catalog.example", "api_key": "forwarded", "callers": "own_api_keys", "ledger": "memory", "durable": false, "ledger_means": ledger.Meaning("memory"), "tls": false, "client_certificates": "none",
		}},
		"listed callers": {serveCmd{UpstreamKeyFile: "key", CallersFile: "callers", ledgerFlags: ledgerFlags{"postgres://me:hunter2@db/easel"}}, map[string]any{
			"api_key": "shared", "callers": "listed", "ledger": "postgres", "durable": true,
		}},
		"certificates": {serveCmd{UpstreamKeyFile: "key", TLSClientCAFile: "ca", TLSClientAuth: "verify_if_given"}, map[string]any{
			"callers": "certified", "client_certificates": "verify_if_given",
		}},
		"on this machine": {serveCmd{UpstreamKeyFile: "key"}, map[string]any{"callers": "loopback"}},
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

func TestWhatIsLessSafeThanItMayBeIsWarnedOf(t *testing.T) {
	known, err := auth.LoadCallers(write(t, "callers: [{name: poster}]\n"), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	everywhere, here := listenFlags{GRPCAddr: ":1", HTTPAddr: "127.0.0.1:2"}, listenFlags{GRPCAddr: "localhost:1", HTTPAddr: "127.0.0.1:2"}
	for name, row := range map[string]struct {
		settings serveCmd
		known    *auth.Callers
		want     string
	}{
		"API keys in the clear":                     {serveCmd{listenFlags: everywhere}, nil, "API keys of callers travel in the clear"},
		"API keys on this machine":                  {serveCmd{listenFlags: here}, nil, ""},
		"API keys within TLS":                       {serveCmd{listenFlags: everywhere, TLSCertFile: "cert"}, nil, ""},
		"a caller without a limit":                  {serveCmd{listenFlags: here, UpstreamKeyFile: "key"}, known, `"callers without budget","callers":"poster","hint":"set a budget`},
		"a caller without a limit, with test money": {serveCmd{listenFlags: here, devKey: "key"}, known, ""},
	} {
		var log bytes.Buffer
		row.settings.logInForce(slog.New(slog.NewJSONHandler(&log, nil)), row.known)
		if n := strings.Count(log.String(), `"WARN"`); n > 1 || (n == 1) != (row.want != "") || !strings.Contains(log.String(), row.want) {
			t.Errorf("%s: %s", name, log.String())
		}
	}
}
