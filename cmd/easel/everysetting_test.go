package main

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// TestEverySettingOccursInSomeTest checks that the variable or the flag of each setting occurs in a test file other
// than settings_test.go, which tests invalid values.
func TestEverySettingOccursInSomeTest(t *testing.T) {
	var tests strings.Builder
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "settings_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	settings := regexp.MustCompile(`env:"(EASEL_\w+)"`).FindAllStringSubmatch(tagsOf(reflect.TypeFor[serveCmd]())+tagsOf(reflect.TypeFor[sandboxCmd]()), -1)
	for _, setting := range settings {
		name := setting[1]
		flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(name, "EASEL_"), "SANDBOX_"), "_", "-"))
		if !regexp.MustCompile(`\b` + name + `\b|"` + flag + `["=]`).MatchString(tests.String()) {
			t.Errorf("no test uses %s", name)
		}
	}
	if len(settings) < 40 {
		t.Errorf("found only the settings %q", settings)
	}
}

func TestSandboxAndServeSettingsTakeEffect(t *testing.T) {
	t.Parallel()
	const key = "sandbox_live_of_the_settings_0123456789"
	db := filepath.Join(t.TempDir(), "catalog.db")
	settings := map[string]string{
		"EASEL_SANDBOX_ADDR": "127.0.0.1:0", "EASEL_SANDBOX_KEY": key, "EASEL_SANDBOX_BALANCE": "3.00", "EASEL_SANDBOX_DAILY_CAP": "2c", "EASEL_SANDBOX_DB": db, "EASEL_SANDBOX_ADMIN": "true",
		"EASEL_SANDBOX_SPEED": "100", "EASEL_SANDBOX_FAILURE_RATE": "1", "EASEL_SANDBOX_DIALECT": "keyed",
	}
	box := startCommand(t, settings, proctest.DevReady, "sandbox")
	served := startServe(t, map[string]string{
		"EASEL_UPSTREAM_URL": box.catalog(), "EASEL_LOG_FORMAT": "text", "EASEL_REFUND_WINDOW": "100ms",
		"EASEL_POLL_MIN_INTERVAL": "20ms", "EASEL_POLL_MAX_INTERVAL": "50ms", "EASEL_POLL_RATE": "100", "EASEL_MAX_INPUTS": "1300000",
	})
	env := map[string]string{"EASEL_ADDR": served.addr("grpc"), "EASEL_API_KEY": key}
	call := func(exit int, want string, args ...string) {
		t.Helper()
		got := easelEnv(t.Context(), nil, env, args...)
		if got.exit != exit || !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("easel %s: exit %d, want %d with %q\n%s%s", strings.Join(args, " "), got.exit, exit, want, got.stdout, got.stderr)
		}
	}
	call(exitOK, "3.00 EUR", "account")
	call(exitGenerationFailed, "failed", "generate", "studio/haiku", "prompt=rain", "--watch")
	call(exitUsage, "4000", "generate", "studio/haiku", "prompt=@"+proctest.File(t, strings.Repeat("x", 1_200_000)))
	call(exitMoney, "API_KEY_DAILY_CAP", "generate", "studio/landscape", "prompt=rain", "size=64x40")
	id := strings.TrimSpace(easelEnv(t.Context(), nil, env, "list", "-q").stdout)
	call(exitGenerationFailed, "failed", "wait", id, "--until", "settled", "--timeout", "1m") // a minute is enough for the refund; the default timeout is ten minutes
	if !strings.Contains(served.stderr.String(), `msg="large inputs allowed"`) {
		t.Errorf("the log does not mention large inputs:\n%s", served.stderr)
	}
	if !strings.Contains(served.stderr.String(), "msg=listening") {
		t.Errorf("the log is not in text format:\n%s", served.stderr)
	}
	if answer, _ := proctest.Request(t, http.MethodGet, box.host()+"/_sandbox/requests", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("the sandbox's admin route returned %s", answer.Status)
	}
	served.stop()
	box.stop()
	if again := startCommand(t, settings, proctest.DevReady, "sandbox"); !strings.Contains(again.stdout.String(), "of an earlier run") {
		t.Errorf("%s is not reused:\n%s", db, again.stdout)
	}
}

// TestMaxPollIntervalLimitsTimeBetweenPolls checks that a slow generation is polled ten times within 15 s if the
// maximum interval is 20 ms. With the default maximum interval, ten polls would take most of a minute.
func TestMaxPollIntervalLimitsTimeBetweenPolls(t *testing.T) {
	t.Parallel()
	box := startSandbox(t, "--admin", "--speed", "0.001")
	addr := startServe(t, map[string]string{"EASEL_UPSTREAM_URL": box.catalog(), "EASEL_POLL_MIN_INTERVAL": "10ms", "EASEL_POLL_MAX_INTERVAL": "20ms", "EASEL_POLL_RATE": "100"}).addr("grpc")
	watching := startCommand(t, map[string]string{"EASEL_ADDR": addr, "EASEL_API_KEY": box.key()}, func(_, stderr string) bool { return strings.Contains(stderr, "queued") },
		"generate", "studio/haiku", "prompt=rain", "--watch")
	defer watching.stop()
	polls := regexp.MustCompile(`"GET /generations/\{id\}": ?(\d\d)`)
	for begun := time.Now(); ; {
		_, counts := proctest.Request(t, http.MethodGet, box.host()+"/_sandbox/requests", "")
		if polls.Match(counts) {
			return
		}
		if time.Since(begun) > 15*time.Second {
			t.Fatalf("after %v, the request counts are %s", time.Since(begun), counts)
		}
	}
}

func TestSandboxLimitsRequestRateOfAPIKey(t *testing.T) {
	t.Parallel()
	box := startSandbox(t, "--rate-limit", "0.1")
	for n, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		answer, _ := proctest.Request(t, http.MethodGet, box.catalog()+"/me", "", "Authorization", "Bearer "+box.key())
		if answer.StatusCode != want {
			t.Errorf("request %d: %s, want %d", n, answer.Status, want)
		}
	}
}

func TestRejectionOfResentOrderIsFinalOnlyIfConfigured(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ keyFirst, timeout, reason string }{
		{"true", "1m", "INSUFFICIENT_BALANCE"},
		{"false", "15s", "SUBMISSION_OUTCOME_UNKNOWN"}, // the server resends the order until the command's timeout expires
	} {
		box := startSandbox(t, "--admin")
		for _, fault := range []string{
			`{"route":"POST /generations","status":500,"count":1}`,
			`{"route":"POST /generations","status":402,"body":"{\"code\":\"INSUFFICIENT_BALANCE\",\"message\":\"no money\"}"}`,
		} {
			proctest.Fetch(t, http.MethodPost, box.host()+"/_sandbox/faults", fault)
		}
		addr := startServe(t, map[string]string{"EASEL_UPSTREAM_URL": box.catalog(), "EASEL_UPSTREAM_KEY_FIRST": test.keyFirst}).addr("grpc")
		env := map[string]string{"EASEL_ADDR": addr, "EASEL_API_KEY": box.key()}
		got := easelEnv(t.Context(), nil, env, "generate", "studio/haiku", "prompt=rain", "-o", "json", "--timeout", test.timeout)
		if !strings.Contains(got.stderr, `"reason":"`+test.reason+`"`) {
			t.Errorf("EASEL_UPSTREAM_KEY_FIRST=%s: exit %d\n%s", test.keyFirst, got.exit, got.stderr)
		}
	}
}
