package systemtest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestAValidatorOfOpenAPITakesTheDocument(t *testing.T) {
	document := filepath.Join(proctest.Root, "gen", "openapi", "easel.openapi.json")
	out, err := exec.CommandContext(t.Context(), tool(t, "openapi-spec-validator"), document).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestWhateverTheDocumentAllowsIsAnsweredAsItSays generates valid and invalid requests from the OpenAPI document,
// individually and in sequences, and checks every response against the document. One run has a small balance, so that
// orders are rejected too. Streams are short, so that they end.
//
// Two checks are always excluded. The first requires that valid data is accepted, but the schema can't fully describe
// valid data: the catalog decides on inputs, and a page token must have been issued. The second requires that invalid
// data is rejected, but protobuf's JSON accepts more than the schema: null for absent members, and numbers of enum
// values. The run with a small balance excludes a third check, because the catalog may be unable to reject an invented
// API key.
func TestWhateverTheDocumentAllowsIsAnsweredAsItSays(t *testing.T) {
	t.Parallel()
	schemathesis := tool(t, "schemathesis")
	const excluded = "positive_data_acceptance,negative_data_rejection"
	for name, row := range map[string]struct {
		flags    []string
		excluded string
	}{
		"with money":                   {[]string{"--balance", "1000.00"}, excluded},
		"with little, and not so fast": {[]string{"--balance", "0.05", "--failure-rate", "0.5", "--rate-limit", "20"}, excluded + ",ignored_auth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev := startDev(t, append(row.flags, "--max-stream-age", "1s")...)
			command := exec.CommandContext(t.Context(), schemathesis, "run", "http://"+dev["REST"]+"/openapi.json",
				"--header", "Authorization: Bearer "+dev["EASEL_API_KEY"],
				"--exclude-checks", row.excluded,
				"--max-examples", "5", "--seed", "1", "--request-timeout", "20", "--no-color", "--continue-on-failure",
				"--suppress-health-check", "too_slow") // the speed depends on the machine
			command.Dir = t.TempDir()
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
