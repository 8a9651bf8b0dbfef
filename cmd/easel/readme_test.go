package main

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// shellBlocks returns the lines of each Markdown code block whose language is sh.
func shellBlocks(t *testing.T, text string) (blocks [][]string) {
	t.Helper()
	for _, part := range strings.Split(text, "```sh\n")[1:] {
		body, _, ok := strings.Cut(part, "```")
		if !ok {
			t.Fatal("a code block is not closed")
		}
		blocks = append(blocks, strings.Split(strings.TrimSpace(body), "\n"))
	}
	return blocks
}

// TestEveryCommandOfTheDocsWorks runs the sh code blocks on every documentation page except the operators' page. Each command
// must succeed, and the commands on each page must save a picture. The server listens on free ports instead of the documented
// ones.
func TestEveryCommandOfTheDocsWorks(t *testing.T) {
	t.Parallel()
	ran, bin := 0, programs(t)
	for path, text := range pages(t) {
		blocks := shellBlocks(t, text)
		if len(blocks) == 0 || path == operatorsPage {
			continue // a separate test runs the commands on the operators' page
		}
		ran += len(blocks)
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			work := t.TempDir()
			runBlocks(t, startDev(t), bin, text, work)
			pictures := regexp.MustCompile(`\b\w+\.png\b`).FindAllString(fmt.Sprint(blocks), -1)
			if len(pictures) == 0 {
				t.Error("the page's commands save no picture")
			}
			wantPictures(t, work, pictures...)
			wantNothingUntracked(t, work)
		})
	}
	if ran < 7 {
		t.Errorf("found only %d sh code blocks", ran)
	}
}

// wantNothingUntracked checks that git ignores all files that a page's commands create in a checkout.
func wantNothingUntracked(t *testing.T, work string) {
	t.Helper()
	proctest.Write(t, filepath.Join(work, ".gitignore"), proctest.Read(t, ".gitignore")+"/.gitignore\n")
	for _, arguments := range []string{"init -q", "status --porcelain"} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", work}, strings.Fields(arguments)...)...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("git %s: %v\n%s", arguments, err, out)
		}
	}
}

const operatorsPage = "docs/operators.md"

// TestEveryCommandOfOperatorDocsWorks runs the commands on the operators' page, in order, against a server that uses the
// callers file from this page.
func TestEveryCommandOfOperatorDocsWorks(t *testing.T) {
	t.Parallel()
	text, work := pages(t)[operatorsPage], t.TempDir()
	_, block, _ := strings.Cut(text, "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	banner, _ := devOn(t, "--callers", proctest.File(t, block), "--speed", "20")
	runBlocks(t, map[string]string{"EASEL_ADDR": proctest.Find(t, `gRPC +(\S+)`, banner)}, programs(t), text, work)
	id, err := os.ReadFile(filepath.Join(work, "ordered.txt"))
	if err != nil || len(shellBlocks(t, text)) != 4 {
		t.Fatalf("found %d sh code blocks, want 4: %v", len(shellBlocks(t, text)), err)
	}
	for caller, exit := range map[string]int{"poster-token": exitOK, "ops-token": exitOK, "flyer-token": exitNotFound} {
		if got := runAs(t, banner, caller, "get", strings.TrimSpace(string(id))); got.exit != exit {
			t.Errorf("%s gets the render: exit %d\n%s", caller, got.exit, got.stderr)
		}
	}
	for caller, renders := range map[string]int{"flyer-token": 1, "poster-token": 3, "ops-token": 4} {
		if got := runAs(t, banner, caller, "list", "-q"); strings.Count(got.stdout, "\n") != renders {
			t.Errorf("%s does not list %d renders:\n%s%s", caller, renders, got.stdout, got.stderr)
		}
	}
	if got := runAs(t, banner, "poster-token", "generate", "studio/landscape", "prompt=a calm sea"); got.exit != exitMoney {
		t.Errorf("an order above the budget: exit %d\n%s", got.exit, got.stderr)
	}
}

// TestTLSCommandsOfOperatorsPageWork runs the commands in the section about TLS on the operators' page, but with free ports.
func TestTLSCommandsOfOperatorsPageWork(t *testing.T) {
	_, page, _ := strings.Cut(proctest.Read(t, operatorsPage), "### Try teams\n")
	_, callers, _ := strings.Cut(page, "```yaml\n")
	callers, _, _ = strings.Cut(callers, "```")
	_, recipe, _ := strings.Cut(page, "### Try TLS\n")
	recipe, _, _ = strings.Cut(recipe, "\n### ")
	recipe = strings.NewReplacer(" easel.key", " DIR/easel.key", " easel.crt", " DIR/easel.crt", "=easel.crt", "=DIR/easel.crt", "catalog.key", "DIR/catalog.key",
		"callers.yaml", proctest.File(t, callers), "ledger.db", "DIR/ledger.db").Replace(recipe)
	recipe = strings.ReplaceAll(recipe, "DIR", t.TempDir())
	line := func(begins string) string { return proctest.Find(t, "(?m)^("+begins+".*)$", recipe) }
	for _, tool := range []string{"openssl", "printf"} {
		proctest.Run(t, exec.CommandContext(t.Context(), "sh", "-c", line(tool)))
	}
	catalog := startCommand(t, nil, proctest.DevReady, append(strings.Fields(line("easel sandbox"))[1:], "--addr", "127.0.0.1:0")...)
	serve := strings.ReplaceAll(line("easel serve"), "127.0.0.1:8099", proctest.Find(t, `http://(127\.0\.0\.1:\d+)`, catalog.stdout.String()))
	served := startCommand(t, nil, proctest.Listening,
		append(strings.Fields(serve)[1:], "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")...)
	env := map[string]string{"EASEL_ADDR": served.addr("grpc")}
	words := strings.Fields(strings.ReplaceAll(line("EASEL_TLS_CA_FILE"), `"first snow"`, "snow"))
	for _, variable := range words[:2] {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	if got := easelEnv(t.Context(), nil, env, words[3:]...); got.exit != exitOK || !strings.Contains(got.stdout+got.stderr, "succeeded") {
		t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	delete(env, "EASEL_TLS_CA_FILE")
	if got := easelEnv(t.Context(), nil, env, "account"); got.exit != exitRetry {
		t.Errorf("a client without TLS: exit %d\n%s", got.exit, got.stderr)
	}
}

// programs returns a directory with the programs that the code blocks need. With -short, it contains no grpcurl.
func programs(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	linkProgram(t, filepath.Join(bin, "easel"))
	if testing.Short() {
		return bin
	}
	// The go command builds grpcurl once and then caches it.
	command := exec.CommandContext(t.Context(), "go", "tool", "-C", filepath.Join("..", "..", "internal", "tools"), "-n", "grpcurl")
	command.Env = append(os.Environ(), "GOWORK=off")
	grpcurl, err := command.Output()
	if err == nil {
		err = os.Symlink(strings.TrimSpace(string(grpcurl)), filepath.Join(bin, "grpcurl"))
	}
	if err != nil {
		t.Fatal("grpcurl: ", err)
	}
	return bin
}

// linkProgram creates a link to the test binary. The binary runs as easel if its environment contains asProgram.
func linkProgram(t *testing.T, path string) {
	t.Helper()
	binary, err := os.Executable()
	if err == nil {
		err = os.Symlink(binary, path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runBlocks runs the shell code blocks of a Markdown text in the directory workDir. binDir is a directory with the required
// programs. dev contains the server's addresses and API key.
func runBlocks(t *testing.T, dev map[string]string, binDir, text, workDir string) {
	t.Helper()
	for _, block := range shellBlocks(t, text) {
		tool, _, _ := strings.Cut(block[0], " ")
		t.Run(tool, func(t *testing.T) {
			switch tool {
			case "grpcurl":
				if testing.Short() {
					t.Skip("grpcurl takes long to build: make test-system runs this block")
				}
			case "curl":
				for _, program := range []string{"curl", "jq"} {
					if _, err := exec.LookPath(program); err != nil {
						t.Skipf("%s is not installed", program)
					}
				}
			}
			script := "set -eu\n" + atTheServer(dev).Replace(strings.Join(block, "\n"))
			command := exec.CommandContext(t.Context(), "sh", "-c", script)
			command.Dir = workDir
			command.Env = append(os.Environ(), asProgram,
				"PATH="+binDir+string(os.PathListSeparator)+os.Getenv("PATH"),
				"EASEL_ADDR="+dev["EASEL_ADDR"], "EASEL_API_KEY="+dev["EASEL_API_KEY"])
			t.Log(proctest.Run(t, command))
		})
	}
}

// atTheServer returns a replacer that replaces the server addresses in the documentation with those of the test's server.
func atTheServer(dev map[string]string) *strings.Replacer {
	return strings.NewReplacer("localhost:50051", dev["EASEL_ADDR"], "localhost:8080", dev["REST"])
}

// wantPictures checks that a directory contains valid pictures with the given names. hills.png may be missing, because
// the commands that download it need curl and jq.
func wantPictures(t *testing.T, work string, names ...string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(work, name))
		if os.IsNotExist(err) && name == "hills.png" {
			continue // hills.png is missing because curl or jq is not installed
		}
		if err == nil {
			_, err = png.Decode(bytes.NewReader(data))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDocumentedLimitsMatchDefaultsOfSettings(t *testing.T) {
	rows := regexp.MustCompile("\\(`(EASEL_\\w+)`\\) \\| ([\\d,]+(?: [hs]\\b)?)").FindAllStringSubmatch(proctest.Read(t, "docs", "limits.md"), -1)
	if len(rows) < 5 {
		t.Fatalf("found only the rows %q", rows)
	}
	for _, row := range rows {
		tag := regexp.MustCompile("env:\"" + row[1] + "\" default:\"([^\"]+)\"").FindStringSubmatch(tagsOf(reflect.TypeFor[serveCmd]()))
		if said := strings.NewReplacer(",", "", " ", "").Replace(row[2]); tag == nil || tag[1] != said {
			t.Errorf("the page has %s for %s, whose default is %q", said, row[1], tag)
		}
	}
}

// tagsOf returns the struct tags of a command's settings, one per line.
func tagsOf(command reflect.Type) string {
	var tags strings.Builder
	for _, field := range reflect.VisibleFields(command) {
		tags.WriteString(string(field.Tag) + "\n")
	}
	return tags.String()
}

// pageLine finds a line that starts with prefix on any page, and returns its words. It omits the first word, which is the
// name of the program.
func pageLine(t *testing.T, prefix string) []string {
	t.Helper()
	for _, text := range pages(t) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, prefix) {
				return strings.Fields(line)[1:]
			}
		}
	}
	t.Fatalf("no page has a line that starts with %q", prefix)
	return nil
}

// TestDocumentedServerCommandsWork starts the servers with the commands in the docs, but on free ports.
func TestDocumentedServerCommandsWork(t *testing.T) {
	freePorts := []string{"--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}
	startCommand(t, nil, proctest.Listening, append(pageLine(t, "easel serve --upstream-url https://"), freePorts...)...)

	const fixed = "127.0.0.1:8099"
	catalog := startCommand(t, nil, proctest.DevReady,
		strings.Fields(strings.ReplaceAll(strings.Join(pageLine(t, "easel sandbox --addr"), " "), fixed, "127.0.0.1:0"))...)
	addr := proctest.Find(t, `http://(127\.0\.0\.1:\d+)`, catalog.stdout.String())
	here := func(words []string) []string {
		return strings.Fields(strings.ReplaceAll(strings.Join(words, " "), fixed, addr))
	}
	facade := startCommand(t, nil, proctest.Listening, append(here(pageLine(t, "easel serve --upstream-url http://")), freePorts...)...)
	env := map[string]string{"EASEL_ADDR": facade.addr("grpc"), "EASEL_API_KEY": catalog.key()}
	if got := easelEnv(t.Context(), nil, env, "account"); got.exit != exitOK {
		t.Fatalf("exit %d: %s", got.exit, got.stderr)
	}

	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	script := "curl -fsS " + strings.Join(here(pageLine(t, "curl -d '{\"route\"")), " ")
	proctest.Run(t, exec.CommandContext(t.Context(), "sh", "-c", script))
	got := easelEnv(t.Context(), nil, env, "generate", "studio/haiku", "prompt=rain")
	if got.exit != exitOK {
		t.Errorf("an order with two injected faults: exit %d\n%s", got.exit, got.stderr)
	}
	out, err := exec.CommandContext(t.Context(), "curl", "-fsS", "http://"+addr+"/_sandbox/requests").Output()
	if err != nil || !strings.Contains(strings.ReplaceAll(string(out), " ", ""), `"POST/generations":3`) {
		t.Errorf("the faults did not fire: %s %v", out, err)
	}
}
