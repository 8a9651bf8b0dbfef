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

// TestWhateverTheDocumentAllowsIsAnsweredAsItSays makes up requests from the document, good
// and bad ones, alone and in sequences, and holds every answer against it. The balance is
// small, so that orders are refused too, and streams are short, so that they end.
//
// Two checks are left out. Which data is valid is more than the schema can say: the catalog
// decides on inputs, and a page token must have been given out. And protobuf's JSON takes
// more than the schema says: null for what is absent, the number of an enum's value. While half of the catalog's responses
// are failures, a third is left out: the catalog may be unable to reject a made-up API key.
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
				"--suppress-health-check", "too_slow") // how fast Schemathesis creates its requests depends on the machine
			command.Dir = t.TempDir()
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
