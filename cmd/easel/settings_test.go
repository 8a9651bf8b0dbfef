package main

import (
	"net"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestInvalidServeSettingIsReportedInOneLine(t *testing.T) {
	key := proctest.File(t, "key\n")
	alone := proctest.File(t, "callers: [{name: billing, tokens: [\"sha256:"+strings.Repeat("0", 64)+"\"]}]\n")
	upstream := "https://catalog.example/api/v1/api/catalog"
	for _, test := range []struct {
		env   map[string]string
		names []string
	}{
		{nil, []string{"EASEL_UPSTREAM_URL is missing"}},
		{map[string]string{"EASEL_UPSTREAM_URL": "catalog.example"}, []string{"EASEL_UPSTREAM_URL"}},
		{map[string]string{"EASEL_UPSTREAM_URL": "ftp://catalog.example"}, []string{"EASEL_UPSTREAM_URL"}},
		{map[string]string{"EASEL_UPSTREAM_URL": "http://catalog.example"}, []string{"EASEL_UPSTREAM_URL", "EASEL_UPSTREAM_INSECURE"}},
		{map[string]string{"EASEL_UPSTREAM_URL": "https://me:hunter2@catalog.example"}, []string{"EASEL_UPSTREAM_URL"}},
		{map[string]string{"EASEL_UPSTREAM_URL": "https://catalog.example/?a=b"}, []string{"EASEL_UPSTREAM_URL"}},
		{map[string]string{"EASEL_UPSTREAM_INSECURE": "maybe"}, []string{"EASEL_UPSTREAM_INSECURE", "bool value must be true"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": "/nowhere/key"}, []string{"EASEL_UPSTREAM_KEY_FILE", "/nowhere/key"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": proctest.File(t, "\n")}, []string{"EASEL_UPSTREAM_KEY_FILE", "is empty"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": proctest.File(t, "one\ntwo\n")}, []string{"EASEL_UPSTREAM_KEY_FILE", "line breaks"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_GRPC_ADDR": "0.0.0.0:1"}, []string{"EASEL_GRPC_ADDR", "EASEL_CALLERS_FILE", "EASEL_ALLOW_ANONYMOUS"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_HTTP_ADDR": "[::]:1"}, []string{"EASEL_HTTP_ADDR", "loopback"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_HTTP_ADDR": "gateway.example:1"}, []string{"EASEL_HTTP_ADDR", "loopback"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": "/nowhere/callers"}, []string{"EASEL_CALLERS_FILE", "/nowhere/callers"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": proctest.File(t, "callers:\n  - name: hunter 2\n    tokens: [hunter2]\n")}, []string{"EASEL_CALLERS_FILE", "line 2", "line 3"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": proctest.File(t, "callers: [{name: billing, tokens: [\"sha256:"+strings.Repeat("0", 64)+"\"]}]\n")}, []string{"EASEL_CALLERS_FILE needs EASEL_LEDGER_URL"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": alone, "EASEL_LEDGER_URL": "sqlite:/nowhere/book"}, []string{"unencrypted", "EASEL_TLS_CERT_FILE", "EASEL_ALLOW_PLAINTEXT=true"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": alone, "EASEL_LEDGER_URL": "sqlite:/nowhere/book", "EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "[::]:0"}, []string{"unencrypted"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": alone, "EASEL_LEDGER_URL": "sqlite:/nowhere/book", "EASEL_ALLOW_PLAINTEXT": "true"}, []string{"/nowhere/book"}},
		{map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": alone, "EASEL_LEDGER_URL": "sqlite:/nowhere/book", "EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "localhost:0"}, []string{"/nowhere/book"}},
		{map[string]string{"EASEL_LEDGER_URL": "postgress://me:hunter2@127.0.0.1/easel"}, []string{"EASEL_LEDGER_URL must be memory, sqlite:FILE"}},
		{map[string]string{"EASEL_LEDGER_URL": "postgres://me:hunter2@:x/easel"}, []string{"EASEL_LEDGER_URL must be"}},
		{map[string]string{"EASEL_LEDGER_URL": "sqlite:"}, []string{"EASEL_LEDGER_URL must be"}},
		{map[string]string{"EASEL_CONTENT_HOSTS": "bucket.example,https://other.example"}, []string{`EASEL_CONTENT_HOSTS: "https://other.example" is not a host`}},
		{map[string]string{"EASEL_PUBLIC_URL": "easel.example"}, []string{"EASEL_PUBLIC_URL must be an absolute"}},
		{map[string]string{"EASEL_CONTENT_URL": "s3://bucket?endpoint=http://s3.example"}, []string{"EASEL_CONTENT_URL: endpoint must be https", "EASEL_UPSTREAM_INSECURE=true"}},
		{map[string]string{"EASEL_CONTENT_URL": "ftp:x"}, []string{"EASEL_CONTENT_URL must be file:DIR or s3://", "EASEL_CONTENT_URL needs EASEL_UPSTREAM_KEY_FILE", "EASEL_CONTENT_URL needs EASEL_LEDGER_URL"}},
		{map[string]string{"EASEL_CALLERS_FILE": proctest.File(t, "")}, []string{"EASEL_CALLERS_FILE"}},
		{map[string]string{"EASEL_ALLOW_ANONYMOUS": "true"}, []string{"EASEL_ALLOW_ANONYMOUS", "EASEL_UPSTREAM_KEY_FILE"}},
		{map[string]string{"EASEL_GRPC_ADDR": "50051"}, []string{"EASEL_GRPC_ADDR"}},
		{map[string]string{"EASEL_ADMIN_ADDR": "a:b:c"}, []string{"EASEL_ADMIN_ADDR"}},
		{map[string]string{"EASEL_METRICS_ADDR": "9465"}, []string{"EASEL_METRICS_ADDR"}},
		{map[string]string{"EASEL_POLL_MIN_INTERVAL": "1"}, []string{"EASEL_POLL_MIN_INTERVAL", "expected duration"}},
		{map[string]string{"EASEL_POLL_MIN_INTERVAL": "-1s"}, []string{"EASEL_POLL_MIN_INTERVAL"}},
		{map[string]string{"EASEL_POLL_MIN_INTERVAL": "1m"}, []string{"EASEL_POLL_MAX_INTERVAL", "EASEL_POLL_MIN_INTERVAL"}},
		{map[string]string{"EASEL_POLL_RATE": "many"}, []string{"EASEL_POLL_RATE", "expected a float"}},
		{map[string]string{"EASEL_POLL_RATE": "0"}, []string{"EASEL_POLL_RATE"}},
		{map[string]string{"EASEL_POLL_RATE": "NaN"}, []string{"EASEL_POLL_RATE"}},
		{map[string]string{"EASEL_REFUND_WINDOW": "0s"}, []string{"EASEL_REFUND_WINDOW"}},
		{map[string]string{"EASEL_RESEND_WINDOW": "0s"}, []string{"EASEL_RESEND_WINDOW"}},
		{map[string]string{"EASEL_MAX_STREAM_AGE": "-1s"}, []string{"EASEL_MAX_STREAM_AGE"}},
		{map[string]string{"EASEL_DRAIN_TIMEOUT": "0s"}, []string{"EASEL_DRAIN_TIMEOUT"}},
		{map[string]string{"EASEL_CALLER_STREAMS": "0"}, []string{"EASEL_CALLER_STREAMS", "from 1 to 1000000"}},
		{map[string]string{"EASEL_MAX_STREAMS": "-1"}, []string{"EASEL_MAX_STREAMS"}},
		{map[string]string{"EASEL_MAX_CALLS": "1000001"}, []string{"EASEL_MAX_CALLS"}},
		{map[string]string{"EASEL_MAX_INPUTS": "16777217"}, []string{"EASEL_MAX_INPUTS", "16777216"}},
		{map[string]string{"EASEL_MAX_CONNS": "0"}, []string{"EASEL_MAX_CONNS"}},
		{map[string]string{"EASEL_TLS_CERT_FILE": key}, []string{"EASEL_TLS_CERT_FILE", "EASEL_TLS_KEY_FILE"}},
		{map[string]string{"EASEL_TLS_CERT_FILE": key, "EASEL_TLS_KEY_FILE": key}, []string{"EASEL_TLS_CERT_FILE"}},
		{map[string]string{"EASEL_TLS_CLIENT_CA_FILE": key}, []string{"EASEL_TLS_CLIENT_CA_FILE", "EASEL_TLS_CERT_FILE"}},
		{map[string]string{"EASEL_HTTP_ALLOWED_HOSTS": "easel.example,https://other.example"}, []string{`EASEL_HTTP_ALLOWED_HOSTS: "https://other.example" is not a host name`}},
		{map[string]string{"EASEL_HTTP_ALLOWED_HOSTS": "easel.example:8080"}, []string{"EASEL_HTTP_ALLOWED_HOSTS", "without scheme and port"}},
		{map[string]string{"EASEL_TLS_CLIENT_AUTH": "require"}, []string{"EASEL_TLS_CLIENT_AUTH", "EASEL_TLS_CLIENT_CA_FILE"}},
		{map[string]string{"EASEL_TLS_CLIENT_AUTH": "never"}, []string{"EASEL_TLS_CLIENT_AUTH: must be one of require, verify_if_given"}},
		{map[string]string{"EASEL_LOG_LEVEL": "loud"}, []string{"easel: EASEL_LOG_LEVEL: must be one of debug, info, warn, error", "loud"}},
		{map[string]string{"EASEL_LOG_FORMAT": "xml"}, []string{"easel: EASEL_LOG_FORMAT: must be one of json, text", "xml"}},
		{map[string]string{"EASEL_REFUND_WINDOW": "1"}, []string{"easel: EASEL_REFUND_WINDOW", "missing unit in duration", `"1"`}},
		{map[string]string{"EASEL_POLL_RATE": "x", "EASEL_DRAIN_TIMEOUT": "y", "EASEL_GRPC_ADDR": "z"}, []string{"EASEL_POLL_RATE", "EASEL_DRAIN_TIMEOUT", "EASEL_GRPC_ADDR", "; "}},
	} {
		if _, set := test.env["EASEL_UPSTREAM_URL"]; !set && test.env != nil {
			test.env["EASEL_UPSTREAM_URL"] = upstream
		}
		got := easelEnv(t.Context(), nil, test.env, "serve")
		if got.exit != exitUsage || len(linesOf(got.stderr)) != 1 || got.stdout != "" {
			t.Errorf("%v: exit %d, printed\n%s%s", test.env, got.exit, got.stdout, got.stderr)
		}
		for _, name := range test.names {
			if !strings.Contains(got.stderr, name) {
				t.Errorf("%v: %q is not in %s", test.env, name, got.stderr)
			}
		}
		if strings.Contains(got.stderr, "hunter2") {
			t.Errorf("a secret is printed: %s", got.stderr)
		}
	}
}

func TestCollectorAddressWithoutSchemeIsReportedInOneLine(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")
	got := easelEnv(t.Context(), nil, map[string]string{"EASEL_UPSTREAM_URL": "https://catalog.example"}, "serve")
	if got.exit != exitUsage || len(linesOf(got.stderr)) != 1 || !strings.Contains(got.stderr, "OTEL_EXPORTER_OTLP_ENDPOINT") || !strings.Contains(got.stderr, "http://localhost:4318") {
		t.Errorf("exit %d, printed\n%s", got.exit, got.stderr)
	}
}

func TestAddressInUseErrorContainsFlagName(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, name := range []string{"GRPC", "HTTP", "ADMIN"} {
		env := map[string]string{"EASEL_UPSTREAM_URL": "https://catalog.example"}
		for _, any := range []string{"GRPC", "HTTP", "ADMIN"} {
			env["EASEL_"+any+"_ADDR"] = "127.0.0.1:0"
		}
		env["EASEL_"+name+"_ADDR"] = taken.Addr().String()
		got := easelEnv(t.Context(), nil, env, "serve", "--log-level", "error")
		flag := "--" + strings.ToLower(name) + "-addr"
		if got.exit != exitUsage || !strings.Contains(got.stderr, "easel: EASEL_"+name+"_ADDR: ") || !strings.Contains(got.stderr, flag) {
			t.Errorf("%s: exit %d\n%s", name, got.exit, got.stderr)
		}
	}
}

func TestInvalidCommandArgumentIsNamed(t *testing.T) {
	for _, test := range []struct {
		args []string
		name string
	}{
		{[]string{"sandbox", "--speed", "0"}, "EASEL_SANDBOX_SPEED"},
		{[]string{"sandbox", "--speed=-1"}, "EASEL_SANDBOX_SPEED"},
		{[]string{"sandbox", "--failure-rate", "2"}, "EASEL_SANDBOX_FAILURE_RATE"},
		{[]string{"sandbox", "--rate-limit=-1"}, "EASEL_SANDBOX_RATE_LIMIT"},
		{[]string{"sandbox", "--dialect", "klingon"}, "--dialect must be one of"},
		{[]string{"sandbox", "--addr", "8099"}, "EASEL_SANDBOX_ADDR"},
		{[]string{"sandbox", "--addr", ":8099", "--admin"}, "EASEL_SANDBOX_ADMIN"},
		{[]string{"sandbox", "--addr", "127.0.0.1:0", "--db", "/nowhere/catalog.db"}, "EASEL_SANDBOX_DB"},
		{[]string{"dev", "--speed", "0"}, "EASEL_SANDBOX_SPEED"},
		{[]string{"dev", "--grpc-addr", "x"}, "EASEL_GRPC_ADDR"},
		{[]string{"sandbox", "--daily-cap", "5"}, "--daily-cap"},
		{[]string{"account", "--timeout=-1s"}, "--timeout"},
		{[]string{"account", "--api-key-file", "/nowhere/key"}, "/nowhere/key"},
		{[]string{"account", "--api-key-file", proctest.File(t, "\n")}, "--api-key-file"},
		{[]string{"account", "--tls-ca-file", proctest.File(t, "x")}, "--tls-ca-file"},
		{[]string{"account", "--tls-cert-file", proctest.File(t, "x")}, "--tls-cert-file"},
		{[]string{"account", "--timeout="}, `--timeout: expected duration`},
		{[]string{"account", "--timeout"}, "--timeout needs a value"},
		{[]string{"orders", "frobnicate"}, "unexpected argument frobnicate"},
		{[]string{"orders", "list", "--state", "wrong"}, `--state must be one of "unknown",`},
		{[]string{"quote", "m", "a=1", "--inputs-json", "{}"}, "--inputs-json"},
		{[]string{"sandbox", "--speed", "-1"}, `--speed="-1"`},
		{[]string{"generate", "m", "--max-cost=-1"}, `--max-cost: "-1" is not an amount; write 0.50`},
		{[]string{"sandbox", "--addr", "127.0.0.1:0", "--db", "/nowhere/catalog.db"}, "/nowhere/catalog.db: unable to open"},
		{[]string{"serve", "--no-such-flag"}, "--no-such-flag"},
		{[]string{"serve", "--upstream-url", "https://catalog.example", "--log-level", "loud"}, "easel: --log-level must be one of"},
		{[]string{"dev", "--poll-rate=-1"}, "EASEL_POLL_RATE"},
		{[]string{"paint"}, "paint"},
	} {
		got := easel(t.Context(), nil, test.args...)
		if got.exit != exitUsage || !strings.Contains(got.stderr, test.name) || len(linesOf(got.stderr)) > 2 {
			t.Errorf("%q: exit %d, printed\n%s", test.args, got.exit, got.stderr)
		}
	}
}

func TestAFlagWinsOverItsVariable(t *testing.T) {
	got := easelEnv(t.Context(), nil, map[string]string{"EASEL_ADDR": "127.0.0.1:2"}, "account", "--addr", "127.0.0.1:1")
	if !strings.Contains(got.stderr, "127.0.0.1:1") {
		t.Errorf("printed\n%s", got.stderr)
	}
	got = easelEnv(t.Context(), nil, map[string]string{"EASEL_ADDR": "127.0.0.1:2"}, "account")
	if !strings.Contains(got.stderr, "127.0.0.1:2") {
		t.Errorf("printed\n%s", got.stderr)
	}
}

func TestServerWithoutAuthenticationDefaultsToLoopback(t *testing.T) {
	c := &serveCmd{UpstreamKeyFile: "key"}
	c.GRPCAddr, c.HTTPAddr = ":50051", "localhost:8080"
	c.guardAddresses()
	if c.GRPCAddr != "127.0.0.1:50051" || c.HTTPAddr != "localhost:8080" {
		t.Errorf("the addresses are %s and %s, want 127.0.0.1:50051 and localhost:8080", c.GRPCAddr, c.HTTPAddr)
	}
	for _, guarded := range []*serveCmd{{}, {UpstreamKeyFile: "key", CallersFile: "file"}, {UpstreamKeyFile: "key", TLSClientCAFile: "file"}, {UpstreamKeyFile: "key", AllowAnonymous: true}} {
		guarded.GRPCAddr, guarded.HTTPAddr = ":50051", ":8080"
		guarded.guardAddresses()
		if guarded.GRPCAddr != ":50051" || guarded.HTTPAddr != ":8080" {
			t.Errorf("%+v is bound to loopback", guarded)
		}
	}
	served := startServe(t, map[string]string{"EASEL_UPSTREAM_URL": "http://127.0.0.1:1", "EASEL_UPSTREAM_KEY_FILE": proctest.File(t, "key\n"), "EASEL_GRPC_ADDR": ":0", "EASEL_HTTP_ADDR": ":0"})
	for _, server := range []string{"grpc", "http"} {
		if !strings.HasPrefix(served.addr(server), "127.0.0.1:") {
			t.Errorf("%s is bound to %s", server, served.addr(server))
		}
	}
}
