package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMisspeltEnvironmentVariableIsReportedInOneLine(t *testing.T) {
	dev := startDev(t)
	for _, name := range []string{
		"EASEL_GRPC_ADR", "EASEL_APIKEY", "EASEL_SANDBOX_BALANCES",
		"EASEL_PORT", // not a setting of Easel, but Kubernetes sets this variable if a Service is named easel
	} {
		got := easelEnv(t.Context(), nil, dev.With(proctest.Settings{name: "hunter2"}), "model", "studio/haiku")
		if want := "easel: " + name + " is an unknown setting and is ignored\n"; got.exit != exitOK || got.stderr != want {
			t.Errorf("%s: exit %d, printed %q; want %q", name, got.exit, got.stderr, want)
		}
	}
	got := easelEnv(t.Context(), nil, dev.With(proctest.Settings{"EASEL_POLL_RAT": "hunter2"}), "model", "studio/haiku", "-o", "json")
	var warning map[string]string
	if err := json.Unmarshal([]byte(got.stderr), &warning); err != nil || warning["warning"] != "EASEL_POLL_RAT is an unknown setting and is ignored" {
		t.Errorf("with -o json there is no JSON warning: %v, printed\n%s", err, got.stderr)
	}
}

func TestKnownEnvironmentVariablesCauseNoWarnings(t *testing.T) {
	env := map[string]string{
		"EASEL_API_KEY": "key", "EASEL_POLL_RATE": "3", "EASEL_UPSTREAM_URL": "x", "EASEL_SANDBOX_SEED": "1",
		"EASEL_EMPTY": "", "EASELS": "2", "PATH": "/bin",
	}
	for _, service := range []string{"EASEL", "EASEL_WEB"} {
		for name, value := range map[string]string{
			"SERVICE_HOST": "10.0.0.7", "SERVICE_PORT": "50051", "SERVICE_PORT_GRPC": "50051", "SERVICE_PORT_HTTP": "8080",
			"PORT": "tcp://10.0.0.7:50051", "PORT_8080_TCP": "tcp://10.0.0.7:8080", "PORT_8080_TCP_ADDR": "10.0.0.7",
			"PORT_8080_TCP_PORT": "8080", "PORT_8080_TCP_PROTO": "tcp",
		} {
			env[service+"_"+name] = value
		}
	}
	if got := easelEnv(t.Context(), nil, proctest.Settings(env).With(startDev(t)), "model", "studio/haiku"); got.exit != exitOK || got.stderr != "" {
		t.Errorf("exit %d, printed\n%s", got.exit, got.stderr)
	}
}

func TestAServerLogsAMisspeltVariableOnceAsAWarning(t *testing.T) {
	for _, command := range []string{"serve", "dev"} {
		served := startCommand(t, map[string]string{
			"EASEL_UPSTREAM_URL": "http://127.0.0.1:1", "EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0",
			"EASEL_POLL_RAT": "hunter2",
		}, proctest.Listening, command)
		served.stop()
		of := func(line string) bool { return strings.Contains(line, "EASEL_POLL_RAT\"") }
		said := slices.DeleteFunc(linesOf(served.stderr.String()), func(line string) bool { return !of(line) })
		if len(said) != 1 || !strings.Contains(said[0], `"level":"WARN"`) {
			t.Errorf("%s: %q", command, said)
		}
		if strings.Contains(served.stderr.String(), "hunter2") {
			t.Errorf("%s: the value is logged", command)
		}
	}
}

func TestMissingSettingErrorMentionsMisspeltVariable(t *testing.T) {
	got := easelEnv(t.Context(), nil, map[string]string{"EASEL_UPSTREAM_UR": "hunter2"}, "serve")
	if got.exit != exitUsage || len(linesOf(got.stderr)) != 1 || strings.Contains(got.stderr, "hunter2") ||
		!strings.Contains(got.stderr, "EASEL_UPSTREAM_URL is missing") || !strings.Contains(got.stderr, "EASEL_UPSTREAM_UR is an unknown setting") {
		t.Errorf("exit %d, printed\n%s", got.exit, got.stderr)
	}
}
