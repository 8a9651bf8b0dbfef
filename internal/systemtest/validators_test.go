package systemtest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestOpenAPIValidatorAcceptsDocument(t *testing.T) {
	document := filepath.Join(proctest.Root, "gen", "openapi", "easel.openapi.json")
	proctest.Run(t, exec.CommandContext(t.Context(), tool(t, "openapi-spec-validator"), document))
}

// TestResponsesMatchOpenAPIDocument generates valid and invalid requests from the OpenAPI document,
// individually and in sequences. It checks every response against the document. Streams end after a second. In one
// run, the balance is small, so that orders are rejected too.
//
// Some checks are excluded:
//   - positive_data_acceptance requires that all data allowed by the schema is accepted. However, the catalog
//     decides which inputs are valid, and a page token must have been issued.
//   - negative_data_rejection requires that all other data is rejected. However, protobuf's JSON also accepts null
//     for absent members, and numbers for enum values.
//   - ignored_auth requires that an invented API key is rejected. In the run with a small balance, the catalog
//     does not always reject it.
func TestResponsesMatchOpenAPIDocument(t *testing.T) {
	t.Parallel()
	schemathesis := tool(t, "schemathesis")
	const excluded = "positive_data_acceptance,negative_data_rejection"
	for name, row := range map[string]struct {
		flags    []string
		excluded string
	}{
		"a large balance":                  {[]string{"--balance", "1000.00"}, excluded},
		"a small balance and a rate limit": {[]string{"--balance", "0.05", "--failure-rate", "0.5", "--rate-limit", "20"}, excluded + ",ignored_auth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev := proctest.StartDev(t, append(row.flags, "--max-stream-age", "1s")...)
			command := exec.CommandContext(t.Context(), schemathesis, "run", "http://"+dev.HTTP+"/openapi.json",
				"--header", "Authorization: Bearer "+dev.Key,
				"--exclude-checks", row.excluded,
				"--max-examples", "5", "--seed", "1", "--request-timeout", "20", "--no-color", "--continue-on-failure",
				"--suppress-health-check", "too_slow") // the health check too_slow would fail on a slow machine
			command.Dir = t.TempDir()
			t.Log(proctest.Run(t, command))
		})
	}
}
