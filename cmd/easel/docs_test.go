package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/rest/page"
)

// headings returns, for each declaration in a proto file, the text that must precede its explanation in
// docs/contract.md. This text is a heading, or the first cells of a table row.
func headings(file protoreflect.FileDescriptor) (all []string) {
	for n := range file.Services().Len() {
		service := file.Services().Get(n)
		all = append(all, "\n## "+string(service.Name())+"\n\n")
		for m := range service.Methods().Len() {
			all = append(all, "\n### "+string(service.Methods().Get(m).Name())+"\n\n")
		}
	}
	for n := range file.Messages().Len() {
		message := file.Messages().Get(n)
		all = append(all, "### "+string(message.Name())+"\n\n")
		for f := range message.Fields().Len() {
			all = append(all, fmt.Sprintf("\n| `%s` | ", message.Fields().Get(f).Name()))
		}
	}
	for n := range file.Enums().Len() {
		for v := range file.Enums().Get(n).Values().Len() {
			value := file.Enums().Get(n).Values().Get(v)
			all = append(all, fmt.Sprintf("\n| `%s` | %d | ", value.Name(), value.Number()))
		}
	}
	return all
}

func TestContractDocumentExplainsEveryProtoName(t *testing.T) {
	text := proctest.Read(t, "docs", "contract.md")
	for _, file := range []protoreflect.FileDescriptor{
		easelv1.File_easel_v1_account_proto, easelv1.File_easel_v1_account_service_proto,
		easelv1.File_easel_v1_generation_proto, easelv1.File_easel_v1_generation_service_proto,
		easelv1.File_easel_v1_model_proto, easelv1.File_easel_v1_model_service_proto,
	} {
		for _, heading := range headings(file) {
			_, after, found := strings.Cut(text, heading)
			if !found || strings.TrimSpace(after) == "" || strings.ContainsAny(after[:1], "\n|#") {
				t.Errorf("the document does not explain %q", strings.TrimSpace(heading))
			}
		}
	}
}

// commandSpans returns the parts of a Markdown text that may be commands: the lines of shell blocks, and inline
// code.
func commandSpans(text string) (all []string) {
	for n, part := range strings.Split(text, "```") {
		if language, block, _ := strings.Cut(part, "\n"); n%2 == 1 {
			if language == "" || language == "sh" {
				all = append(all, strings.Split(block, "\n")...)
			}
			continue
		}
		for _, code := range regexp.MustCompile("(?s)`([^`]+)`").FindAllStringSubmatch(part, -1) {
			all = append(all, strings.ReplaceAll(code[1], "\n", " "))
		}
	}
	return all
}

// TestEveryCommandInDocsExists checks that the make targets, easel commands and test names in the docs exist.
// Other tests run some of these commands, but not commands that take too long or do not exit.
func TestEveryCommandInDocsExists(t *testing.T) {
	var named []string
	for path, text := range pages(t) {
		if !strings.HasPrefix(path, "deploy/") { // skips the pages in deploy/, which also contain commands of other programs
			named = append(named, commandSpans(text)...)
		}
	}
	seen := map[string]int{}
	for _, span := range append(named, commandSpans(page.Start)...) {
		for name, check := range map[string]func(*testing.T, string){
			"make ": wantTarget, "easel ": wantCommand, "go test ": wantTests,
		} {
			if at := strings.Index(span, name); at == 0 || at > 0 && strings.ContainsAny(span[at-1:at], " (/") {
				seen[name]++
				check(t, span[at:])
			}
		}
	}
	if seen["make "] < 20 || seen["easel "] < 24 || seen["go test "] < 5 {
		t.Errorf("found too few commands: %v", seen)
	}
}

func wantTarget(t *testing.T, span string) {
	t.Helper()
	makefile := proctest.Read(t, "Makefile")
	targets := regexp.MustCompile(`^make((?: [./a-z0-9-]+)+)`).FindStringSubmatch(span)
	if targets == nil {
		t.Errorf("%q contains no Makefile target", span)
		return
	}
	for _, target := range strings.Fields(targets[1]) {
		first, _, _ := strings.Cut(target, "-")
		if !regexp.MustCompile(`(?m)^(?:` + regexp.QuoteMeta(target) + `|` + regexp.QuoteMeta(first) + `-%):`).MatchString(makefile) {
			t.Errorf("the Makefile has no target %s, used in %q", target, span)
		}
	}
}

func wantCommand(t *testing.T, span string) {
	t.Helper()
	words := strings.Fields(span)
	ask := []string{words[1], "--help"}
	switch {
	case words[1] == "help":
		ask = words[1:]
	case len(words) > 2 && slices.Contains([]string{"orders", "callers", "events", "ledger", "content"}, words[1]):
		ask = []string{words[1], words[2], "--help"}
	}
	help := easel(t.Context(), nil, ask...)
	if help.exit != exitOK {
		t.Errorf("%q: exit %d", span, help.exit)
	}
	for _, flag := range regexp.MustCompile(`(?: )(--?[a-z][a-z-]*)`).FindAllStringSubmatch(span, -1) {
		if !regexp.MustCompile(`(?m)(^|[ ,])` + flag[1] + `([ =,]|$)`).MatchString(help.stdout) {
			t.Errorf("%q: the command has no flag %s", span, flag[1])
		}
	}
}

func wantTests(t *testing.T, span string) {
	t.Helper()
	words := regexp.MustCompile(`(\./\S+)(?: -run '?([^' ]+))?`).FindStringSubmatch(span)
	if words == nil {
		t.Errorf("%q contains no package path", span)
		return
	}
	files, err := filepath.Glob(filepath.Join("..", "..", words[1], "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q: %d files, %v", span, len(files), err)
	}
	for pattern := range strings.SplitSeq(words[2], "|") {
		found := slices.ContainsFunc(files, func(file string) bool {
			source, err := os.ReadFile(file)
			return err == nil && regexp.MustCompile(`func Test\w*`+pattern).Match(source)
		})
		if !found {
			t.Errorf("%q: no test matches %s", span, pattern)
		}
	}
}
