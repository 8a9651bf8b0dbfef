package main

import (
	"bytes"
	"io"
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

// TestEverySettingIsInATestOfAUsersWay searches the tests for the variable or the flag of each setting. It skips
// settings_test.go, which tests invalid values.
func TestEverySettingIsInATestOfAUsersWay(t *testing.T) {
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
			t.Errorf("%s is in no test", name)
		}
	}
	if len(settings) < 40 {
		t.Errorf("found only %q", settings)
	}
}

// startSandbox starts a sandbox with the given settings, and returns its URL.
func startSandbox(t *testing.T, settings map[string]string) (box *running, url string) {
	t.Helper()
	settings["EASEL_SANDBOX_ADDR"] = "127.0.0.1:0"
	box = start(t, settings, func(stdout, _ string) bool { return strings.Contains(stdout, "easel serve") }, "sandbox")
	return box, proctest.Find(t, `(http://\S+/catalog)`, box.stdout.String())
}

// startServe starts a server with the given settings, and returns its gRPC and REST addresses.
func startServe(t *testing.T, settings map[string]string) (served *running, addr, rest string) {
	t.Helper()
	for _, name := range []string{"EASEL_GRPC_ADDR", "EASEL_HTTP_ADDR", "EASEL_ADMIN_ADDR"} {
		settings[name] = "127.0.0.1:0"
	}
	served = start(t, settings, func(_, stderr string) bool { return strings.Count(stderr, "listening") == 3 }, "serve")
	logs := strings.ReplaceAll(served.stderr.String(), `"`, "")
	return served, proctest.Find(t, `server[=:]grpc[, ]addr[=:]([\d.:]+)`, logs), proctest.Find(t, `server[=:]http[, ]addr[=:]([\d.:]+)`, logs)
}

// fetch gets a page, and returns its status and text.
func fetch(t *testing.T, url string) (status int, text string) {
	t.Helper()
	answer, err := http.Get(url) //nolint:noctx // on this machine
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestTheSettingsOfSandboxAndFacadeDoWhatTheySay(t *testing.T) {
	t.Parallel()
	const key = "sandbox_live_of_the_settings_0123456789"
	db := filepath.Join(t.TempDir(), "catalog.db")
	settings := map[string]string{
		"EASEL_SANDBOX_KEY": key, "EASEL_SANDBOX_BALANCE": "3.00", "EASEL_SANDBOX_DAILY_CAP": "2c", "EASEL_SANDBOX_DB": db, "EASEL_SANDBOX_ADMIN": "true",
		"EASEL_SANDBOX_SPEED": "100", "EASEL_SANDBOX_FAILURE_RATE": "1", "EASEL_SANDBOX_DIALECT": "keyed",
	}
	box, catalog := startSandbox(t, settings)
	served, addr, _ := startServe(t, map[string]string{
		"EASEL_UPSTREAM_URL": catalog, "EASEL_LOG_FORMAT": "text", "EASEL_REFUND_WINDOW": "100ms",
		"EASEL_POLL_MIN_INTERVAL": "20ms", "EASEL_POLL_MAX_INTERVAL": "50ms", "EASEL_POLL_RATE": "100", "EASEL_MAX_INPUTS": "3000000",
	})
	call := func(exit int, want string, args ...string) {
		t.Helper()
		got := easelEnv(t.Context(), nil, map[string]string{"EASEL_ADDR": addr, "EASEL_API_KEY": key}, args...)
		if got.exit != exit || !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("easel %s: exit %d, and not %d with %q\n%s%s", strings.Join(args, " "), got.exit, exit, want, got.stdout, got.stderr)
		}
	}
	call(exitOK, "3.00 EUR", "account")
	call(exitGenerationFailed, "failed", "generate", "studio/haiku", "prompt=rain", "--watch")
	long := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(long, bytes.Repeat([]byte("x"), 2_900_000), 0o600); err != nil {
		t.Fatal(err)
	}
	call(exitUsage, "4000", "generate", "studio/haiku", "prompt=@"+long)
	call(exitMoney, "API_KEY_DAILY_CAP", "generate", "studio/landscape", "prompt=rain", "size=64x40")
	id := strings.TrimSpace(easelEnv(t.Context(), nil, map[string]string{"EASEL_ADDR": addr, "EASEL_API_KEY": key}, "list", "-q").stdout)
	call(exitGenerationFailed, "failed", "wait", id, "--until", "settled", "--timeout", "1m") // the default is ten minutes
	if !strings.Contains(served.stderr.String(), `msg="large inputs allowed"`) {
		t.Errorf("the log has nothing about the memory of large inputs:\n%s", served.stderr)
	}
	if !strings.Contains(served.stderr.String(), "msg=listening") {
		t.Errorf("the log is not in text format:\n%s", served.stderr)
	}
	if code, _ := fetch(t, strings.Split(catalog, "/api/")[0]+"/_sandbox/requests"); code != http.StatusOK {
		t.Errorf("the sandbox's admin route returned %d", code)
	}
	served.stop()
	box.stop()
	if again, _ := startSandbox(t, settings); !strings.Contains(again.stdout.String(), "of an earlier run") {
		t.Errorf("%s is not reused:\n%s", db, again.stdout)
	}
}

// TestTheLongestPollIntervalBoundsTheWaitForAPoll uses a slow generation. With the default maximum, the interval after ten
// polls would be most of a minute.
func TestTheLongestPollIntervalBoundsTheWaitForAPoll(t *testing.T) {
	t.Parallel()
	const key = "sandbox_live_of_the_settings_0123456789"
	_, catalog := startSandbox(t, map[string]string{"EASEL_SANDBOX_KEY": key, "EASEL_SANDBOX_ADMIN": "true", "EASEL_SANDBOX_SPEED": "0.001"})
	_, addr, _ := startServe(t, map[string]string{"EASEL_UPSTREAM_URL": catalog, "EASEL_POLL_MIN_INTERVAL": "10ms", "EASEL_POLL_MAX_INTERVAL": "20ms", "EASEL_POLL_RATE": "100"})
	watching := start(t, map[string]string{"EASEL_ADDR": addr, "EASEL_API_KEY": key}, func(_, stderr string) bool { return strings.Contains(stderr, "queued") },
		"generate", "studio/haiku", "prompt=rain", "--watch")
	defer watching.stop()
	polls := regexp.MustCompile(`"GET /generations/\{id\}": ?(\d\d)`)
	for begun := time.Now(); ; {
		_, counts := fetch(t, strings.Split(catalog, "/api/")[0]+"/_sandbox/requests")
		if polls.MatchString(counts) {
			return
		}
		if time.Since(begun) > 15*time.Second {
			t.Fatalf("after %v there were %s", time.Since(begun), counts)
		}
	}
}

// TestACatalogMayLimitTheRateOfAnAPIKey sends requests until the catalog rejects one.
func TestACatalogMayLimitTheRateOfAnAPIKey(t *testing.T) {
	t.Parallel()
	const key = "sandbox_live_of_the_settings_0123456789"
	_, catalog := startSandbox(t, map[string]string{"EASEL_SANDBOX_KEY": key, "EASEL_SANDBOX_RATE_LIMIT": "0.1"})
	for n := 0; ; n++ {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, catalog+"/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close() // only its status matters
		if answer.StatusCode == http.StatusTooManyRequests {
			return
		}
		if n > 100 {
			t.Fatalf("no 429 in %d requests; the last status is %d", n, answer.StatusCode)
		}
	}
}

func TestARefusalAfterALostAnswerIsCertainWhereTheCatalogLooksAtTheKeyFirst(t *testing.T) {
	t.Parallel()
	const key = "sandbox_live_of_the_settings_0123456789"
	for _, test := range []struct{ keyFirst, timeout, reason string }{
		{"true", "1m", "INSUFFICIENT_BALANCE"},
		{"false", "15s", "SUBMISSION_OUTCOME_UNKNOWN"}, // the order is resent until the timeout expires
	} {
		_, catalog := startSandbox(t, map[string]string{"EASEL_SANDBOX_KEY": key, "EASEL_SANDBOX_ADMIN": "true"})
		for _, fault := range []string{
			`{"route":"POST /generations","status":500,"count":1}`,
			`{"route":"POST /generations","status":402,"body":"{\"code\":\"INSUFFICIENT_BALANCE\",\"message\":\"no money\"}"}`,
		} {
			answer, err := http.Post(strings.Split(catalog, "/api/")[0]+"/_sandbox/faults", "application/json", strings.NewReader(fault)) //nolint:noctx // it is on this machine
			if err != nil || answer.StatusCode/100 != 2 {
				t.Fatal(answer, err)
			}
			_ = answer.Body.Close() // only its status matters
		}
		_, addr, _ := startServe(t, map[string]string{"EASEL_UPSTREAM_URL": catalog, "EASEL_UPSTREAM_KEY_FIRST": test.keyFirst})
		env := map[string]string{"EASEL_ADDR": addr, "EASEL_API_KEY": key}
		got := easelEnv(t.Context(), nil, env, "generate", "studio/haiku", "prompt=rain", "-o", "json", "--timeout", test.timeout)
		if !strings.Contains(got.stderr, `"reason":"`+test.reason+`"`) {
			t.Errorf("EASEL_UPSTREAM_KEY_FIRST=%s: exit %d, without %s\n%s", test.keyFirst, got.exit, test.reason, got.stderr)
		}
	}
}
