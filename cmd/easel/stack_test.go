package main

import (
	"context"
	"encoding/json"
	"image"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/proctest"
)

// running is a command that a test has started, usually a server.
type running struct {
	*testing.T
	stdout, stderr *proctest.Output
	stop           func() int
}

// startCommand starts a command and waits until isReady returns true for the output so far. The test fails if the
// command exits first or is not ready within 20 seconds.
func startCommand(t *testing.T, env map[string]string, isReady func(stdout, stderr string) bool, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{T: t, stdout: proctest.NewOutput(), stderr: proctest.NewOutput()}
	exit := make(chan int, 1)
	go func() {
		exit <- cli.Run(ctx, args, &cli.Program{
			Grammar: grammar(), Build: thisBuild(),
			Stdin: strings.NewReader(""), Stdout: r.stdout, Stderr: r.stderr,
			Lookup:  func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			Environ: func() []string { return proctest.Environ(env) },
		})
	}()
	r.stop = func() int {
		cancel()
		code := <-exit
		exit <- code
		return code
	}
	t.Cleanup(func() { r.stop() })
	proctest.Eventually(t, 20*time.Second, "start of the command", func() bool {
		ended := len(exit) > 0
		is := isReady(r.stdout.String(), r.stderr.String())
		if ended && !is {
			t.Fatalf("the command exited before it was ready\n%s%s", r.stdout, r.stderr)
		}
		return is
	}, r.stdout.String, r.stderr.String)
	return r
}

// startServe starts 'easel serve' on free ports with the given settings, and waits until it listens.
func startServe(t *testing.T, settings map[string]string) *running {
	t.Helper()
	env := proctest.Settings{"EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0"}.With(settings)
	listeners := 3
	if env["EASEL_METRICS_ADDR"] != "" {
		listeners++
	}
	return startCommand(t, env, func(_, stderr string) bool { return strings.Count(stderr, "listening") == listeners }, "serve")
}

// addr returns the address of the given listener: grpc, http, admin or metrics.
func (r *running) addr(server string) string {
	r.Helper()
	return proctest.Find(r.T, `server[=:]`+server+`[, ]addr[=:]([^\s,}]+)`, strings.ReplaceAll(r.stderr.String(), `"`, ""))
}

// startSandbox starts 'easel sandbox' on a free port with the given flags.
func startSandbox(t *testing.T, flags ...string) *running {
	t.Helper()
	return startCommand(t, nil, proctest.DevReady, append([]string{"sandbox", "--addr", "127.0.0.1:0"}, flags...)...)
}

// catalog returns the base URL of the sandbox's catalog. To get this URL without its path, call host.
func (r *running) catalog() string {
	r.Helper()
	return proctest.Find(r.T, `(http://\S+/catalog)`, r.stdout.String())
}

func (r *running) host() string {
	r.Helper()
	return proctest.Find(r.T, `(http://[^/\s]+)/\S*catalog`, r.stdout.String())
}

// key returns the API key that the sandbox has printed.
func (r *running) key() string {
	r.Helper()
	return proctest.Find(r.T, `(sandbox_live_\w+)`, r.stdout.String())
}

// sharedSettings returns the settings of a server whose callers share the sandbox's API key.
func (r *running) sharedSettings() proctest.Settings {
	r.Helper()
	return proctest.Settings{"EASEL_UPSTREAM_URL": r.catalog(), "EASEL_UPSTREAM_KEY_FILE": proctest.File(r.T, r.key()+"\n")}
}

// startDev runs 'easel dev' on free ports and returns the environment variables for its clients.
func startDev(t *testing.T, flags ...string) proctest.Settings {
	t.Helper()
	dev := startCommand(t, nil, proctest.DevReady, proctest.Dev(flags...)...)
	return proctest.DevClients(t, dev.stdout.String())
}

func TestCommandsWorkAgainstDevServer(t *testing.T) {
	t.Parallel()
	env, dir := startDev(t), t.TempDir()
	call := func(exit int, args ...string) printed {
		t.Helper()
		got := easelEnv(t.Context(), nil, env, args...)
		if got.exit != exit {
			t.Fatalf("easel %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got.exit, exit, got.stdout, got.stderr)
		}
		return got
	}
	want := func(got printed, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got.stdout+got.stderr, part) {
				t.Errorf("%q is not in\n%s%s", part, got.stdout, got.stderr)
			}
		}
	}
	want(call(exitOK, "account"), "50.00 EUR")
	want(call(exitOK, "health"), "SERVING")
	want(call(exitOK, "models"), "studio/landscape", "studio/haiku")
	want(call(exitOK, "model", "studio/landscape"), "prompt", "required", "1024x640")
	want(call(exitOK, "quote", "studio/landscape", "prompt=sea", "size=64x40"), "price", "0.05 EUR")

	file := filepath.Join(dir, "sea.png")
	want(call(exitOK, "generate", "studio/landscape", "prompt=sea", "size=64x40", "--max-cost", "5c", "--out", file), "succeeded", file)
	reader, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if picture, format, err := image.DecodeConfig(reader); err != nil || format != "png" || picture.Width != 64 {
		t.Errorf("got format %s, picture %+v, error %v", format, picture, err)
	}

	id := strings.TrimSpace(call(exitOK, "generate", "studio/haiku", "prompt=sea", "--idempotency-key", "one", "-q").stdout)
	if again := call(exitOK, "generate", "studio/haiku", "prompt=sea", "--idempotency-key", "one", "-q").stdout; strings.TrimSpace(again) != id {
		t.Errorf("one idempotency key led to two renders, %s and %s", id, again)
	}
	reused := call(exitUsage, "generate", "studio/haiku", "prompt=land", "--idempotency-key", "one")
	if want(reused, "another order"); strings.Count(reused.stderr, "another order") != 1 {
		t.Errorf("the error is not printed exactly once:\n%s", reused.stderr)
	}
	want(call(exitOK, "watch", id), "succeeded", "text")
	want(call(exitOK, "wait", id), "0.01 EUR")
	want(call(exitOK, "get", id, "--fresh"), "studio/haiku")
	want(call(exitOK, "list"), id, "studio/landscape")
	want(call(exitGenerationFailed, "generate", "studio/haiku", "prompt=[fail]", "--watch"), "failed")
	want(call(exitOK, "account"), "49.9") // the charge for the failed render has not been refunded yet

	want(call(exitMoney, "generate", "studio/haiku", "prompt=sea", "--max-cost", "0c"), "PRICE_ABOVE_LIMIT", "price of 1 cents exceeds max_cost_cents 0")
	want(call(exitUsage, "quote", "studio/landscape", "prompt=sea", "size=9x9"), "inputs.size")
	want(call(exitUsage, "quote", "studio/haiku", "prompt=@"+proctest.File(t, strings.Repeat("x", 2<<20))), "received message larger than max", "Send a smaller request.")
	want(call(exitUsage, "quote", "studio/nope", "--inputs-json", "{}"), "; ListModels returns the IDs")
	want(call(exitNotFound, "get", "gen_nope"), "GENERATION_NOT_FOUND")
	want(call(exitNotFound, "watch", "gen_nope"), "gen_nope")
	want(call(exitNotFound, "watch", "gen_nope", "gen_no"), "gen_nope  deleted", "it was deleted, or it never existed")
	want(call(exitRetry, "account", "--addr", env["REST"]), "server speaks HTTP/1.1 and not gRPC; use the gRPC address of Easel")
	want(call(exitRetry, "account", "--addr", "https://"+env["EASEL_ADDR"]), "server does not speak TLS; use http:// in the address")
	want(call(exitFailure, "account", "--addr", env["ADMIN"]), "Is this the gRPC address")
	want(call(exitUsage, "generate", "studio/haiku", "--inputs-json", `{"prompt": 5}`), "Nothing was ordered.")
	if got, same := call(exitOK, "--version", "-o", "json"), call(exitOK, "version", "-o", "json"); got != same || got.stdout == "" {
		t.Errorf("--version prints %s, and version %s", got.stdout, same.stdout)
	}
	want(call(exitNotFound, "model", "studio/nope"), "MODEL_NOT_FOUND")
	want(call(exitOK, "download", id, "--out", dir), id+".txt", "text/plain")
	if out := call(exitOK, "generate", "studio/landscape", "prompt=sea", "size=64x40", "--out", "-").stdout; !strings.HasPrefix(out, "\x89PNG") {
		t.Errorf("got standard output %.20q, want a PNG file", out)
	}
	want(call(exitOK, "delete", id), id)
	want(call(exitNotFound, "delete", id), "GENERATION_NOT_FOUND")
	want(call(exitOK, "delete", id, "--allow-missing"))

	env["EASEL_API_KEY"] = "sandbox_live_wrong"
	want(call(exitCredential, "account"), "UPSTREAM_CREDENTIAL_REJECTED")
	env["EASEL_API_KEY"] = ""
	want(call(exitCredential, "account"), "EASEL_API_KEY")
}

func TestJSONOutputOfCommandsParses(t *testing.T) {
	t.Parallel()
	env, dir := startDev(t), t.TempDir()
	ask := func(args ...string) map[string]any {
		t.Helper()
		got := easelEnv(t.Context(), nil, env, append(args, "-o", "json")...)
		var object map[string]any
		if err := json.Unmarshal([]byte(got.stdout), &object); err != nil || got.exit != exitOK {
			t.Fatalf("easel %s: exit %d, %v\n%s%s", strings.Join(args, " "), got.exit, err, got.stdout, got.stderr)
		}
		for _, line := range linesOf(got.stderr) {
			if !json.Valid([]byte(line)) {
				t.Errorf("easel %s: %q is not JSON", strings.Join(args, " "), line)
			}
		}
		return object
	}
	ask("account")
	ask("health")
	ask("models")
	ask("model", "studio/print")
	ask("quote", "studio/haiku", "prompt=sea")
	made := ask("generate", "studio/landscape", "prompt=sea", "size=64x40", "--watch")
	id, _ := made["generationId"].(string)
	if made["state"] != "STATE_SUCCEEDED" || made["terminal"] != true || id == "" {
		t.Errorf("generate printed %v", made)
	}
	ask("get", id)
	ask("list")
	ask("wait", id)
	if saved := ask("download", id, "--out", dir); saved["path"] == "" || saved["sha256"] == "" || saved["source"] != "catalog" {
		t.Errorf("download printed %v", saved)
	}
	ask("delete", id)
	ask("version")
}

func TestDemoShowsEveryStep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.png")
	got := easel(t.Context(), nil, "demo", "--out", file)
	if got.exit != exitOK || got.stderr != "" {
		t.Fatalf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	for _, part := range []string{"queued", "running", "succeeded", "written to " + file, "1600x1000", "one charge", "$ easel usage"} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("%q is not in\n%s", part, got.stdout)
		}
	}
	if strings.ContainsAny(got.stdout, "\x1b\r\\") {
		t.Errorf("the output has control characters or backslashes:\n%q", got.stdout)
	}
}
