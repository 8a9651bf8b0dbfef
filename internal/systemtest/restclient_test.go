package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// restClient is the directory in which 'make test-system' installs openapi-typescript, which generates a TypeScript
// client from the OpenAPI document.
const restClient = ".build/restclient/node_modules"

func TestGeneratedOpenAPIClientCanOrderRender(t *testing.T) {
	t.Parallel()
	node, modules := tool(t, "node"), proctest.FromRoot(t, restClient)
	if _, err := os.Stat(modules); err != nil {
		t.Skip("openapi-typescript is not installed (make test-system): the generated client is NOT checked")
	}
	dev, work := proctest.StartDev(t), t.TempDir()
	for _, name := range []string{"order.ts", "tsconfig.json", "package.json"} {
		text := proctest.Read(t, "internal", "systemtest", "testdata", "restclient", name)
		proctest.Write(t, filepath.Join(work, name), text)
	}
	if err := os.Symlink(modules, filepath.Join(work, "node_modules")); err != nil {
		t.Fatal(err)
	}
	run := func(words ...string) string {
		command := exec.CommandContext(t.Context(), node, words...)
		command.Dir = work
		command.Env = append(os.Environ(), "EASEL_URL=http://"+dev.HTTP, "EASEL_API_KEY="+dev.Key)
		return proctest.Run(t, command)
	}
	document := proctest.FromRoot(t, filepath.Join("gen", "openapi", "easel.openapi.json"))
	run("node_modules/openapi-typescript/bin/cli.js", document, "--output", "easel.d.ts")
	run("node_modules/typescript/bin/tsc")
	if said := run("dist/order.js"); said != "STATE_SUCCEEDED hills image/png true\n400 3 true\n" {
		t.Errorf("the client printed %s", said)
	}
}
