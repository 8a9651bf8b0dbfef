package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestProtoTreeMatchesDescriptorSet(t *testing.T) {
	t.Parallel()
	protoc := tool(t, "protoc")
	requireLibraries(t, "protobuf") // protoc needs google/protobuf/*.proto, which Debian packages together with the headers of protobuf
	tree := filepath.Join(proctest.Root, "gen", "proto")
	files, err := filepath.Glob(filepath.Join(tree, "*", "*", "*.proto"))
	if err != nil || len(files) < 10 {
		t.Fatalf("gen/proto has the files %q, want at least 10: %v", files, err)
	}
	compiled := filepath.Join(t.TempDir(), "set")
	out, err := exec.CommandContext(t.Context(), protoc, append([]string{"-I", tree, "--include_imports", "--descriptor_set_out=" + compiled}, files...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	parsed, set := readDescriptors(t, compiled), readDescriptors(t, filepath.Join(proctest.Root, "gen", "easel.binpb"))
	if len(set) != len(files) {
		t.Errorf("gen/easel.binpb has %d files, want %d", len(set), len(files))
	}
	if diff := cmp.Diff(set, parsed, protocmp.Transform()); diff != "" {
		t.Errorf("gen/easel.binpb (-) differs from the .proto files (+)\n%s", diff)
	}
}

// readDescriptors reads a descriptor set and returns its files, keyed by name and without source positions. It omits
// the files in google/protobuf, which come with every compiler.
func readDescriptors(t *testing.T, path string) map[string]*descriptorpb.FileDescriptorProto {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	data, err := os.ReadFile(path)
	if err == nil {
		err = proto.Unmarshal(data, &set)
	}
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*descriptorpb.FileDescriptorProto{}
	for _, file := range set.GetFile() {
		if !strings.HasPrefix(file.GetName(), "google/protobuf/") {
			file.SourceCodeInfo = nil
			files[file.GetName()] = file
		}
	}
	return files
}

// TestDocumentedCppAndJavaScriptClientsWork checks the instructions in docs/callers.md for languages without a client
// library. It builds a C++ client with the page's commands, and runs it against a server. It also runs the page's
// JavaScript program.
func TestDocumentedCppAndJavaScriptClientsWork(t *testing.T) {
	t.Parallel()
	dev := proctest.StartDev(t)
	t.Run("C++ with Debian's protoc", func(t *testing.T) {
		t.Parallel()
		tool(t, "protoc")
		tool(t, "grpc_cpp_plugin")
		requireLibraries(t, "protobuf", "grpc++")
		work := workplace(t)
		proctest.Write(t, filepath.Join(work, "client.cc"), proctest.Read(t, "internal", "systemtest", "testdata", "client.cc"))
		runInWorkplace(t, work, dev, "sh", "-euc", pageBlock(t, "mkdir out\n"))
		if said := runInWorkplace(t, work, dev, "./client"); said != "5000 EUR\nUPSTREAM_CREDENTIAL_REJECTED\n" {
			t.Errorf("the client printed %s", said)
		}
	})
	t.Run("JavaScript with proto-loader", func(t *testing.T) {
		t.Parallel()
		node := tool(t, "node")
		if _, err := os.Stat(proctest.FromRoot(t, nodeModules)); err != nil {
			t.Skip("grpc-js is not installed (make test-system): JavaScript is NOT checked")
		}
		script := strings.ReplaceAll(pageBlock(t, "const grpc"), "localhost:50051", dev.GRPC)
		if said := runInWorkplace(t, workplace(t), dev, node, "-e", script); !strings.Contains(said, "balanceCents: 5000") {
			t.Errorf("the client printed %s", said)
		}
	})
}

// requireLibraries skips the test unless pkg-config finds all of the given C++ libraries.
func requireLibraries(t *testing.T, libraries ...string) {
	t.Helper()
	for _, library := range libraries {
		if err := exec.CommandContext(t.Context(), tool(t, "pkg-config"), "--exists", library).Run(); err != nil {
			t.Skipf("the headers of %s are not installed: C++ is NOT checked", library)
		}
	}
}

// workplace returns a temporary directory that contains a link to gen. Commands that must run in the root of the repository
// therefore work there too.
func workplace(t *testing.T) string {
	t.Helper()
	work := t.TempDir()
	if err := os.Symlink(proctest.FromRoot(t, "gen"), filepath.Join(work, "gen")); err != nil {
		t.Fatal(err)
	}
	return work
}

// nodeModules is the directory in which 'make test-system' installs the dependencies of the JavaScript client.
const nodeModules = ".build/anylanguage/node_modules"

func runInWorkplace(t *testing.T, work string, dev *proctest.Process, words ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Dir = work
	command.Env = append(os.Environ(), "EASEL_ADDR="+dev.GRPC, "EASEL_API_KEY="+dev.Key,
		"NODE_PATH="+proctest.FromRoot(t, nodeModules))
	return proctest.Run(t, command)
}

// pageBlock returns the code block in docs/callers.md that starts with the given text.
func pageBlock(t *testing.T, beginning string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```[a-z]*\n(" + regexp.QuoteMeta(beginning) + ".*?)```").FindStringSubmatch(proctest.Read(t, "docs", "callers.md"))
	if found == nil {
		t.Fatalf("no block in docs/callers.md starts with %q", beginning)
	}
	return found[1]
}
