package clients

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/easel-grpc/easel/gen/go/easel/v1" // registers the contract
	"github.com/easel-grpc/easel/internal/proctest"
)

// usedElsewhere lists the methods and fields that are used neither by a client library nor by the command line. It maps
// each of them to a file that uses it.
var usedElsewhere = map[protoreflect.FullName]string{
	"easel.v1.GenerationService.WaitGeneration":     "internal/server/scenario_test.go",   // for callers that cannot stream, such as scripts with curl
	"easel.v1.DownloadGenerationRequest.read_limit": "internal/rest/download.go",          // the query parameter readLimit of a download over REST
	"easel.v1.GenerationUpdate.initial":             "internal/simulation/caller_test.go", // used to distinguish the initial state from later changes
	"easel.v1.WatchGenerationResponse.emit_time":    "internal/server/reader_test.go",     // used to measure the delay of a message
	"easel.v1.WatchGenerationsResponse.emit_time":   "internal/server/reader_test.go",
	"easel.v1.WatchEventsResponse.emit_time":        "internal/server/events_test.go",
}

// TestEveryMethodAndFieldOfContractIsUsed searches for each name in the client libraries and the command line, which
// are the programs that call Easel.
func TestEveryMethodAndFieldOfContractIsUsed(t *testing.T) {
	users := readSources(t, "clients/go", "clients/python/src", "clients/typescript/src", "clients/java/src", "internal/cli")
	unused := map[protoreflect.FullName]bool{}
	for _, name := range contractNames() {
		if !containsName(users, string(name.Name())) {
			unused[name] = true
		}
	}
	for name := range unused {
		if usedElsewhere[name] == "" {
			t.Errorf("%s has no user; use it in a client library or the command line, or remove it", name)
		}
	}
	for name, path := range usedElsewhere {
		if !unused[name] {
			t.Errorf("%s has a user; remove it from usedElsewhere", name)
		}
		if !containsName(proctest.Read(t, path), string(name.Name())) {
			t.Errorf("%s does not use %s", path, name)
		}
	}
}

// contractNames returns the full names of all methods and fields in the contract.
func contractNames() (names []protoreflect.FullName) {
	protoregistry.GlobalFiles.RangeFilesByPackage("easel.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				names = append(names, file.Services().Get(i).Methods().Get(j).FullName())
			}
		}
		names = append(names, fieldNames(file.Messages())...)
		return true
	})
	return names
}

func fieldNames(messages protoreflect.MessageDescriptors) (names []protoreflect.FullName) {
	for i := range messages.Len() {
		message := messages.Get(i)
		for j := range message.Fields().Len() {
			if !message.IsMapEntry() {
				names = append(names, message.Fields().Get(j).FullName())
			}
		}
		names = append(names, fieldNames(message.Messages())...)
	}
	return names
}

// readSources returns the source code of the programs in the directories, without Go tests.
func readSources(t *testing.T, directories ...string) string {
	t.Helper()
	var all strings.Builder
	for _, directory := range directories {
		err := filepath.WalkDir(filepath.Join(proctest.Root, directory), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !regexp.MustCompile(`\.(go|py|ts|java)$`).MatchString(path) || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// containsName reports whether the source code in programs contains a name in the style of any language. For example,
// read_limit can also be readLimit, ReadLimit or getReadLimit.
func containsName(programs, name string) bool {
	letters := strings.Split(name, "_")
	for i, word := range letters {
		letters[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	camel := strings.Join(letters, "")
	return regexp.MustCompile(`\b(` + name + `|` + strings.ToLower(camel[:1]) + camel[1:] + `|([Gg]et|set|add|putAll)?` + camel + `)\b`).MatchString(programs)
}
