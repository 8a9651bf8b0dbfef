package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// headings gives each name of the contract that the document must explain, with how its
// explanation begins there.
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

func TestTheDocumentOfTheContractExplainsEveryName(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []protoreflect.FileDescriptor{
		easelv1.File_easel_v1_account_proto, easelv1.File_easel_v1_account_service_proto,
		easelv1.File_easel_v1_generation_proto, easelv1.File_easel_v1_generation_service_proto,
		easelv1.File_easel_v1_model_proto, easelv1.File_easel_v1_model_service_proto,
	} {
		for _, heading := range headings(file) {
			_, after, found := strings.Cut(string(text), heading)
			if !found || strings.TrimSpace(after) == "" || strings.ContainsAny(after[:1], "\n|#") {
				t.Errorf("the document does not explain %q", strings.TrimSpace(heading))
			}
		}
	}
}
