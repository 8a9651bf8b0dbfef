package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// restClient is the directory in which 'make test-system' installs openapi-typescript, which generates a TypeScript
// client from the OpenAPI document.
const restClient = ".build/restclient/node_modules"

func TestAClientThatIsMadeFromTheDocumentOrders(t *testing.T) {
	t.Parallel()
	node, modules := tool(t, "node"), fromRoot(t, restClient)
	if _, err := os.Stat(modules); err != nil {
		t.Skip("openapi-typescript is not installed (make test-system): the generated client is NOT checked")
	}
	dev, work := startDev(t), t.TempDir()
	for _, name := range []string{"order.ts", "tsconfig.json", "package.json"} {
		text := readFile(t, "internal", "systemtest", "testdata", "restclient", name)
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(modules, filepath.Join(work, "node_modules")); err != nil {
		t.Fatal(err)
	}
	run := func(words ...string) string {
		command := exec.CommandContext(t.Context(), node, words...)
		command.Dir = work
		command.Env = append(os.Environ(), "EASEL_URL=http://"+dev["REST"], "EASEL_API_KEY="+dev["EASEL_API_KEY"])
		said, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("node %s: %v\n%s", words, err, said)
		}
		return string(said)
	}
	document := fromRoot(t, filepath.Join("gen", "openapi", "easel.openapi.json"))
	run("node_modules/openapi-typescript/bin/cli.js", document, "--output", "easel.d.ts")
	run("node_modules/typescript/bin/tsc")
	if said := run("dist/order.js"); said != "STATE_SUCCEEDED hills image/png true\n400 3 true\n" {
		t.Errorf("the client printed %s", said)
	}
}
