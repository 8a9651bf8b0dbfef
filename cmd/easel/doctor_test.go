package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/doctor"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// runDoctor runs 'easel doctor' against the catalog at url, and checks that the output does not contain the API key.
func runDoctor(t *testing.T, url, key string, args ...string) printed {
	t.Helper()
	got := easelEnv(t.Context(), nil, map[string]string{"EASEL_UPSTREAM_URL": url, "EASEL_API_KEY": key}, append([]string{"doctor"}, args...)...)
	if key != "" && strings.Contains(got.stdout+got.stderr, key) {
		t.Errorf("the key is printed:\n%s%s", got.stdout, got.stderr)
	}
	return got
}

func TestDoctorCommandWorksWithEveryCatalogDialect(t *testing.T) {
	for _, dialect := range sandbox.Dialects() {
		t.Run(dialect.Name, func(t *testing.T) {
			box, err := startCatalog(t.Context(), "127.0.0.1:0", sandbox.Config{Dialect: dialect, Seed: 1, Speed: 50}, false)
			if err != nil {
				t.Fatal(err)
			}
			defer box.close(t.Context())
			key, err := box.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for n := range 3 {
				orderDirectly(t, box.baseURL(), key, n)
			}
			got := runDoctor(t, box.baseURL(), key)
			if got.exit != exitOK || strings.Contains(got.stdout, "BAD") {
				t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
			}
			for _, part := range []string{"balance ", "price ", "input fields ", "status word "} {
				if !strings.Contains(got.stdout, part) {
					t.Errorf("%q is not in\n%s", part, got.stdout)
				}
			}
		})
	}
}

// orderDirectly places an order without Easel, at the catalog whose URL is base. Different values of n result in different
// idempotency keys.
func orderDirectly(t *testing.T, base, key string, n int) {
	t.Helper()
	resp, body := proctest.Request(t, http.MethodPost, base+"/generations", `{"modelId": "studio/haiku", "inputs": {"prompt": "x"}}`,
		"Authorization", "Bearer "+key, "Content-Type", "application/json", "Idempotency-Key", fmt.Sprint("k", n))
	if resp.StatusCode/100 != 2 {
		t.Fatalf("the order returned %s %s", resp.Status, body)
	}
}

// startStubCatalog starts a catalog and returns its URL. bodies maps a method and path, such as "GET /models", to a
// response body. All other routes return 404.
func startStubCatalog(t *testing.T, bodies map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, known := bodies[r.Method+" "+r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			body = `{"code": "NOT_FOUND", "message": "no"}`
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// unforeseen contains a catalog's responses, keyed by route. The records in them use names that Easel does not recognize.
var unforeseen = map[string]string{
	"GET /me":            `{"walletCents": 500, "name": "me"}`,
	"GET /models":        `[{"id": "paint", "title": "Paint"}]`,
	"GET /models/detail": `{"id": "paint", "knobs": [{"name": "prompt", "type": "prose"}]}`,
	"POST /quote":        `{"eurPrice": 12, "validFor": "5m"}`,
	"GET /generations": `{"links": [{"rel": "next"}], "pictures": [
		{"id": "a", "status": "baking"}, {"id": "b", "status": "baked", "contentUrl": "/x"}]}`,
}

func TestDoctorCommandReportsUnknownCatalogFields(t *testing.T) {
	url := startStubCatalog(t, unforeseen)
	got := runDoctor(t, url, "studio_live_0123456789abcdef")
	for _, want := range []string{
		"balanceNames", "walletCents (a number)", "fieldListNames", "knobs (a list)", "priceCentsNames", "eurPrice (a number)", "generationListNames", "pictures (a list)", catalog.RulesFile,
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%s is not in\n%s", want, got.stdout)
		}
	}
	if got.exit != exitFailure || !strings.Contains(got.stderr, "can't be read in full: account") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
	if got := runDoctor(t, url, ""); got.exit != exitCredential {
		t.Errorf("without a key: exit %d", got.exit)
	}
}

func TestDoctorReportIsValidJSON(t *testing.T) {
	got := runDoctor(t, startStubCatalog(t, unforeseen), "studio_live_0123456789abcdef", "-o", "json")
	var report doctor.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || report.OK || len(report.Checks) != 5 {
		t.Fatalf("%v\n%s", err, got.stdout)
	}
	price := report.Checks[3].Findings
	if price[0].Part != "price" || !strings.Contains(price[0].Fault, "priceCentsNames") || price[1].Where != "eurPrice (a number), validFor (a text)" {
		t.Errorf("%+v", price)
	}
	for _, line := range linesOf(got.stderr) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q is not JSON", line)
		}
	}
}

func TestDoctorReportsWhyCatalogCannotBeRead(t *testing.T) {
	box, err := startCatalog(t.Context(), "127.0.0.1:0", sandbox.Config{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := runDoctor(t, box.baseURL(), "studio_live_wrong"); got.exit != exitCredential || !strings.Contains(got.stderr, "rejects the API key") || strings.Contains(got.stdout, "models") {
		t.Errorf("a wrong key: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	box.close(t.Context())
	if got := runDoctor(t, box.baseURL(), "studio_live_wrong"); got.exit != exitRetry || !strings.Contains(got.stderr, "--upstream-url") {
		t.Errorf("an unreachable catalog: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	if got := runDoctor(t, startStubCatalog(t, nil), "studio_live_wrong"); got.exit != exitFailure || !strings.Contains(got.stderr, "base address") {
		t.Errorf("a server that is not a catalog: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	if got := runDoctor(t, "http://catalog.example", "studio_live_wrong"); got.exit != exitUsage || !strings.Contains(got.stderr, "EASEL_UPSTREAM_INSECURE") {
		t.Errorf("over plain HTTP: exit %d\n%s", got.exit, got.stderr)
	}
}
